//! What `doctor` is told of every kept machine, word for word.

use sampler::machine::Facts;
use sampler::survey::survey;

use crate::pmu::machine;

/// The lines of a machine as `level subject: text -> remedy`.
#[track_caller]
fn check(name: &str, expected: &[&str]) {
    let tree = machine(name);
    let lines: Vec<String> = survey(&Facts::read(tree.path()))
        .iter()
        .map(|line| {
            let remedy = if line.remedy.is_empty() {
                String::new()
            } else {
                format!(" -> {}", line.remedy)
            };
            format!(
                "{} {}: {}{remedy}",
                line.level.name(),
                line.subject,
                line.text
            )
        })
        .collect();
    assert_eq!(lines, expected, "{lines:#?}");
}

#[test]
fn alder_lake_is_hybrid() {
    check(
        "alder-lake",
        &[
            "ok address samples: `pebs` is the best source that this machine offers",
            "ok source pebs: loads with a threshold of latency and stores on `cpu_atom` (cpus \
             16-23); loads with a threshold of latency and stores on `cpu_core` (cpus 0-15), \
             loads led by `mem-loads-aux`",
            "ok other sources: for other processors: `ibs` (AMD), `spe` (Arm)",
            "ok core counters: `cpu_atom` (alderlake_hybrid, cpus 16-23), `cpu_core` \
             (alderlake_hybrid, cpus 0-15)",
            "ok memory controllers: 2 of `uncore_imc` (no named events); 2 of \
             `uncore_imc_free_running` (data_read, data_total, data_write)",
            "limited shared caches: the kernel has announced none -> modprobe intel_uncore, or \
             use a kernel that knows this processor",
            "ok links: one package, so there are none",
            "ok energy: `power` (energy-cores, energy-gpu, energy-pkg, energy-psys)",
        ],
    );
}

#[test]
fn ice_lake() {
    check(
        "ice-lake-sp",
        &[
            "ok address samples: `pebs` is the best source that this machine offers",
            "ok source pebs: loads with a threshold of latency and stores on `cpu`",
            "ok other sources: for other processors: `ibs` (AMD), `spe` (Arm)",
            "ok core counters: `cpu` (icelake)",
            "ok memory controllers: 12 of `uncore_imc` (cas_count_read, cas_count_write, \
             clockticks); 4 of `uncore_imc_free_running` (dclk, ddrt_read, ddrt_write, read, \
             write)",
            "ok shared caches: 3 of `uncore_cha` (no named events)",
            "ok links: 3 of `uncore_upi` (no named events)",
            "ok energy: `power` (energy-pkg, energy-ram)",
        ],
    );
}

#[test]
fn a_guest_without_counters() {
    check(
        "kvm-guest",
        &[
            "limited address samples: page faults are the only source that this machine offers: \
             they tell who touches a page, not how often or how fast",
            "limited source pebs: this virtual machine is given no hardware counters -> run \
             numad on the host, or give the machine counters (QEMU: `-cpu host,pmu=on`)",
            "ok other sources: for other processors: `ibs` (AMD), `spe` (Arm)",
            "limited core counters: this virtual machine is given no hardware counters -> run \
             numad on the host, or give the machine counters (QEMU: `-cpu host,pmu=on`)",
            "limited memory controllers: a virtual machine is not given their counters -> run \
             numad on the host",
            "limited shared caches: a virtual machine is not given their counters -> run numad \
             on the host",
            "limited links: a virtual machine is not given their counters -> run numad on the host",
            "limited energy: a virtual machine is not given their counters -> run numad on the \
             host",
        ],
    );
}

#[test]
fn neoverse_n1() {
    check(
        "neoverse-n1",
        &[
            "ok address samples: `spe` is the best source that this machine offers",
            "ok source spe: loads and stores on `arm_spe_0` (cpus 0-159), one of 1024 operations \
             at most",
            "ok other sources: for other processors: `pebs` (Intel), `ibs` (AMD)",
            "ok core counters: `armv8_pmuv3_0` (cpus 0-159)",
            "ok memory controllers: 4 of `arm_dmc620` (no named events)",
            "limited shared caches: the kernel has announced none -> load the driver of this \
             machine's interconnect, such as arm-cmn or hisi_uncore_l3c_pmu",
            "limited links: the kernel has announced none -> load the driver of this machine's \
             interconnect, such as arm-cmn or hisi_uncore_l3c_pmu",
            "limited energy: the kernel has announced none",
        ],
    );
}

#[test]
fn sapphire_rapids() {
    check(
        "sapphire-rapids",
        &[
            "ok address samples: `pebs` is the best source that this machine offers",
            "ok source pebs: loads with a threshold of latency and stores on `cpu`, loads led by \
             `mem-loads-aux`",
            "ok other sources: for other processors: `ibs` (AMD), `spe` (Arm)",
            "ok core counters: `cpu` (sapphire_rapids)",
            "ok memory controllers: 8 of `uncore_imc` (no named events)",
            "ok shared caches: 3 of `uncore_cha` (no named events)",
            "ok links: 4 of `uncore_upi` (no named events)",
            "ok energy: `power` (energy-pkg, energy-ram)",
        ],
    );
}

#[test]
fn skylake() {
    check(
        "skylake-sp",
        &[
            "ok address samples: `pebs` is the best source that this machine offers",
            "ok source pebs: loads with a threshold of latency and stores on `cpu`",
            "ok other sources: for other processors: `ibs` (AMD), `spe` (Arm)",
            "ok core counters: `cpu` (skylake)",
            "ok memory controllers: 6 of `uncore_imc` (cas_count_read, cas_count_write, \
             clockticks)",
            "ok shared caches: 3 of `uncore_cha` (no named events)",
            "ok links: 3 of `uncore_upi` (no named events)",
            "ok energy: `power` (energy-pkg, energy-ram)",
        ],
    );
}

#[test]
fn zen_2() {
    check(
        "zen-2",
        &[
            "ok address samples: `ibs` is the best source that this machine offers",
            "ok source ibs: loads and stores of all cores, counted by operations; levels are \
             told coarsely; samples of the kernel's own are left out by numad",
            "ok other sources: for other processors: `pebs` (Intel), `spe` (Arm)",
            "ok core counters: `cpu`",
            "limited memory controllers: this processor has no counters there; `amd_df` counts \
             what crosses its fabric",
            "ok shared caches: `amd_l3` (no named events)",
            "ok links: `amd_df` (no named events)",
            "ok energy: `power` (energy-pkg)",
        ],
    );
}

#[test]
fn zen_4() {
    check(
        "zen-4",
        &[
            "ok address samples: `ibs` is the best source that this machine offers",
            "ok source ibs: loads and stores of all cores, counted by operations; levels are \
             told in full; samples of the kernel's own are left out by the kernel",
            "ok other sources: for other processors: `pebs` (Intel), `spe` (Arm)",
            "ok core counters: `cpu`",
            "ok memory controllers: 24 of `amd_umc` (no named events)",
            "ok shared caches: `amd_l3` (no named events)",
            "ok links: `amd_df` (no named events)",
            "ok energy: `power` (energy-pkg)",
        ],
    );
}
