//! What a source measures, told by its name: the kernel tells it in no other way.

use super::Pmu;

/// What an event source measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The counters of all cores, or on Arm of all cores of one make.
    Core,
    /// The counters of one kind of core where a processor has several kinds.
    HybridCore(CoreKind),
    /// AMD's instruction-based sampling of executed operations.
    IbsOp,
    /// AMD's instruction-based sampling of fetches.
    IbsFetch,
    /// Arm's statistical profiling extension.
    Spe,
    /// A memory controller or channel.
    MemoryController,
    /// A slice of a shared cache, or the agent that is home to memory lines.
    CacheHome,
    /// A link between packages, or the fabric that they hang on.
    Link,
    /// Energy counters.
    Energy,
    /// The kernel's own events, such as page faults.
    Software,
    /// Anything else.
    Other,
}

/// A kind of core of a processor that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoreKind {
    /// Fast cores (`cpu_core`).
    Performance,
    /// Small cores (`cpu_atom`).
    Efficiency,
    /// The smallest cores (`cpu_lowpower`).
    LowPower,
}

/// Names, or with `*` beginnings of names. The first that fits counts, so the longer stand before
/// the shorter. `hisi_` sources have the number of the die between: see [`hisilicon`].
const ROLES: [(&str, Role); 37] = [
    ("cpu", Role::Core),
    ("cpu_core", Role::HybridCore(CoreKind::Performance)),
    ("cpu_atom", Role::HybridCore(CoreKind::Efficiency)),
    ("cpu_lowpower", Role::HybridCore(CoreKind::LowPower)),
    ("armv6*", Role::Core),
    ("armv7*", Role::Core),
    ("armv8*", Role::Core),
    ("armv9*", Role::Core),
    ("apple_*", Role::Core),
    ("ibs_op", Role::IbsOp),
    ("ibs_fetch", Role::IbsFetch),
    ("arm_spe_*", Role::Spe),
    // `uncore_imc_free_running_0` counts too, and `uncore_imc` of clients has no number.
    ("uncore_imc*", Role::MemoryController),
    ("uncore_hbm*", Role::MemoryController),
    ("uncore_mchbm*", Role::MemoryController),
    ("uncore_edc*", Role::MemoryController),
    ("amd_umc*", Role::MemoryController),
    ("arm_dmc620*", Role::MemoryController),
    ("thunderx2_dmc*", Role::MemoryController),
    ("uncore_dmc*", Role::MemoryController),
    ("ali_drw*", Role::MemoryController),
    ("uncore_chabox*", Role::CacheHome),
    ("uncore_cha*", Role::CacheHome),
    ("uncore_cbox*", Role::CacheHome),
    ("uncore_ha*", Role::CacheHome),
    ("amd_l3", Role::CacheHome),
    ("arm_dsu*", Role::CacheHome),
    ("thunderx2_l3c*", Role::CacheHome),
    ("nvidia_scf_pmu*", Role::CacheHome),
    ("uncore_upi*", Role::Link),
    ("uncore_qpi*", Role::Link),
    ("amd_df", Role::Link),
    ("arm_cmn*", Role::Link),
    ("nvidia_cnvlink_pmu*", Role::Link),
    ("nvidia_nvlink_c2c*", Role::Link),
    ("power*", Role::Energy),
    ("software", Role::Software),
];

impl Pmu {
    /// What it measures.
    #[must_use]
    pub fn role(&self) -> Role {
        of(&self.name)
    }
}

fn of(name: &str) -> Role {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    ROLES
        .iter()
        .find(|(pattern, _)| fits(pattern))
        .map_or_else(|| hisilicon(name), |&(_, role)| role)
}

/// `hisi_sccl3_ddrc0`, `hisi_sccl3_l3c12`, `hisi_sccl1_hha0`.
fn hisilicon(name: &str) -> Role {
    let part = name
        .strip_prefix("hisi_")
        .and_then(|rest| rest.split_once('_'));
    match part {
        Some((_, part)) if part.starts_with("ddrc") => Role::MemoryController,
        Some((_, part)) if part.starts_with("l3c") || part.starts_with("hha") => Role::CacheHome,
        Some((_, part)) if part.starts_with("pa") => Role::Link,
        _ => Role::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(role: Role, names: &[&str]) {
        for name in names {
            assert_eq!(of(name), role, "{name}");
        }
    }

    #[test]
    fn names_tell_roles() {
        check(Role::Core, &["cpu", "armv8_pmuv3_0", "armv8_cortex_a72"]);
        check(Role::HybridCore(CoreKind::Performance), &["cpu_core"]);
        check(Role::HybridCore(CoreKind::Efficiency), &["cpu_atom"]);
        check(Role::HybridCore(CoreKind::LowPower), &["cpu_lowpower"]);
        check(Role::IbsOp, &["ibs_op"]);
        check(Role::IbsFetch, &["ibs_fetch"]);
        check(Role::Spe, &["arm_spe_0", "arm_spe_1"]);
        check(
            Role::MemoryController,
            &[
                "uncore_imc",
                "uncore_imc_11",
                "uncore_imc_free_running_0",
                "uncore_hbm_3",
                "amd_umc_7",
                "arm_dmc620_10008c000",
                "hisi_sccl3_ddrc0",
            ],
        );
        check(
            Role::CacheHome,
            &[
                "uncore_cha_0",
                "uncore_cbox_3",
                "uncore_ha_1",
                "amd_l3",
                "hisi_sccl3_l3c0",
            ],
        );
        check(
            Role::Link,
            &[
                "uncore_upi_0",
                "uncore_qpi_1",
                "amd_df",
                "arm_cmn_0",
                "hisi_sicl0_pa0",
            ],
        );
        check(Role::Energy, &["power", "power_core"]);
        check(Role::Software, &["software"]);
        check(
            Role::Other,
            &[
                "",
                "cpufreq",
                "msr",
                "tracepoint",
                "breakpoint",
                "uprobe",
                "uncore_iio_0",
                "uncore_m2m_0",
                "intel_pt",
                "hisi_",
                "hisi_sccl3_",
                "cs_etm",
                "amd_iommu_0",
            ],
        );
    }
}
