//! What the steward shows: rows made from the engine's state and its own, for those who may see.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use control::rows::{
    Attachment, AttachmentDetail, ConfigText, EventRow, Evidence, Finding, JournalReport,
    KernelMoves, Matrix, Partner, PolicyRow, SettingRow, Status, ThreadRow,
};
use control::{ErrorKind, Failure};
use numad_core::cost::MachineModel;
use numad_core::{
    AttachmentId, Certainty, CommMatrix, PolicyFactory, Support, TaskState, Veto, WindowSummary,
};
use sampler::RateStatus;
use topology::{Origin, Pid, Topology};

use super::attach::in_words;
use super::program::Program;
use super::{Parts, Steward, Survey, finding};
use crate::external;
use crate::peer::{Credentials, Peer};

/// How long what was found of others that place threads or memory is told again.
const RIVALS_KEPT: Duration = Duration::from_secs(30);

/// Which of the two matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixWindow {
    /// The last window's.
    Live,
    /// All windows', older ones counting less.
    Decayed,
}

/// A matrix as it was at a moment. What is made of it costs a hundred times as much as taking it down.
#[derive(Debug)]
pub struct MatrixDraft {
    window: &'static str,
    tids: Vec<u32>,
    nodes: Vec<Option<u32>>,
    ranks: Vec<Option<u32>>,
    matrix: CommMatrix,
    samples: u64,
    certainty: Certainty,
    per_amount: f64,
}

impl MatrixDraft {
    /// Whether it tells of no thread.
    pub(super) fn is_empty(&self) -> bool {
        self.tids.is_empty()
    }

    /// The row for those who asked.
    #[must_use]
    pub fn row(self) -> Matrix {
        let support = Support {
            matrix: &self.matrix,
            certainty: self.certainty,
            per_amount: self.per_amount,
        };
        Matrix {
            window: self.window.to_owned(),
            rows: rows_of(&self.matrix, self.tids.len()),
            samples: self.samples,
            support: support.cells(),
            confidence: self.certainty.confidence(),
            partners: partners(&support, &self.tids),
            nodes: self.nodes,
            ranks: self.ranks,
            tids: self.tids,
        }
    }
}

/// What the kernel's balancing does just now.
#[derive(Clone, Copy, Debug)]
struct KernelNow {
    balances: bool,
    /// Pages that it moved so far; none where nobody tells.
    moved_pages: Option<u64>,
}

/// What is known of the machine, and what is still to be looked up, on whatever thread has time.
pub struct Checkup {
    surveys: [Survey; 2],
    known: Vec<Finding>,
}

impl fmt::Debug for Checkup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkup")
            .field("known", &self.known)
            .finish_non_exhaustive()
    }
}

impl Checkup {
    /// Looks up the rest.
    #[must_use]
    pub fn run(self) -> Vec<Finding> {
        let surveys = self.surveys.into_iter();
        surveys
            .flat_map(|survey| survey())
            .chain(self.known)
            .collect()
    }
}

impl Steward {
    /// How the daemon is.
    pub fn status(&mut self, peer: Peer) -> Status {
        let usage = self.parts.machine.own_usage();
        let topology = Arc::clone(&self.parts.topology);
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            up_s: self.now().since(self.began).as_secs_f64(),
            machine: topology.summary(),
            nodes: short(topology.nodes().len()),
            source: self.source_in_words(),
            source_notes: self.source_notes(),
            sample_period: self.rate().map_or(0, |rate| rate.period),
            budget_percent: self.parts.config.overhead.budget * 100.0,
            used_percent: self.used().map(|share| share * 100.0),
            cpu_s: usage.cpu_s,
            resident_bytes: usage.resident_bytes,
            journal_open: self.parts.hand.open_rows(),
            attachments: self.attachments(peer),
            rivals: self.rivals(),
            memory: Vec::new(),
            links: Vec::new(),
            power: Vec::new(),
        };
        self.parts.meters.show(&mut status);
        status
    }

    /// Looked for anew now and then only: it reads the name of every process.
    fn rivals(&mut self) -> Vec<String> {
        let now = self.now();
        let (at, known) = &self.rivals_seen;
        if at.is_some_and(|at| now.since(at) < RIVALS_KEPT) {
            return known.clone();
        }
        let rivals = self.parts.machine.rivals();
        self.rivals_seen = (Some(now), rivals.clone());
        rivals
    }

    /// Attached programs that the peer may see.
    pub fn attachments(&mut self, peer: Peer) -> Vec<Attachment> {
        let kernel = self.kernel_now();
        let visible = self.programs.iter();
        let visible = visible.filter(|(_, program)| may_see(peer, program));
        let ids: Vec<AttachmentId> = visible.map(|(&id, _)| id).collect();
        let rows = ids.into_iter().map(|id| self.row(id, kernel));
        rows.flatten().collect()
    }

    /// One attached program with its threads.
    ///
    /// # Errors
    /// When there is none of this number, or it is someone else's.
    pub fn detail(&mut self, peer: Peer, id: AttachmentId) -> Result<AttachmentDetail, Failure> {
        let settings = self.visible(peer, id)?.settings.clone();
        let mut threads: Vec<ThreadRow> = self
            .engine
            .tasks(id)
            .iter()
            .map(|task| self.thread(task))
            .collect();
        threads.sort_by_key(|thread| (thread.tid, thread.pid));
        Ok(AttachmentDetail {
            attachment: self.shown(id)?,
            threads,
            settings,
        })
    }

    /// Which thread shares memory with which, taken down to be worked out elsewhere.
    ///
    /// # Errors
    /// As [`Self::detail`].
    pub fn matrix(
        &mut self,
        peer: Peer,
        id: AttachmentId,
        window: MatrixWindow,
    ) -> Result<MatrixDraft, Failure> {
        let program = self.visible(peer, id)?;
        let (name, samples) = match window {
            MatrixWindow::Live => ("live", program.window.samples),
            MatrixWindow::Decayed => ("decayed", program.samples),
        };
        let (keys, live, decayed) = self.engine.matrices(id).unwrap_or_default();
        let matrix = match window {
            MatrixWindow::Live => live,
            MatrixWindow::Decayed => decayed,
        };
        let tasks = self.engine.tasks(id);
        let nodes: BTreeMap<_, _> = tasks
            .iter()
            .filter_map(|task| {
                let node = task
                    .placed
                    .or_else(|| self.parts.topology.node_of(task.cpu));
                Some((task.key, node?.0))
            })
            .collect();
        Ok(MatrixDraft {
            window: name,
            nodes: keys.iter().map(|key| nodes.get(key).copied()).collect(),
            tids: keys.iter().map(|key| key.tid.0).collect(),
            ranks: self.ranks_of(id, &keys),
            matrix,
            samples,
            certainty: self.engine.certainty(id).unwrap_or(Certainty::of(0.5)),
            per_amount: self.engine.samples_per_amount(id),
        })
    }

    /// What was done and not done, oldest first; of programs that have ended as well.
    ///
    /// # Errors
    /// As [`Self::detail`].
    pub fn events(
        &self,
        peer: Peer,
        id: AttachmentId,
        last: usize,
    ) -> Result<Vec<EventRow>, Failure> {
        let ended = || {
            self.ended
                .iter()
                .find(|ended| ended.id == id)
                .map(|ended| &ended.program)
        };
        let program = self
            .programs
            .get(&id)
            .or_else(ended)
            .ok_or_else(|| no_attachment(id))?;
        if !may_see(peer, program) {
            return Err(not_yours(id));
        }
        Ok(program.history.last(last))
    }

    /// The policies, with their settings in force.
    #[must_use]
    pub fn policies(&self) -> Vec<PolicyRow> {
        policies::registry()
            .iter()
            .map(|factory| self.policy_row(factory))
            .chain(self.external_policies())
            .collect()
    }

    /// The programs that may be policies.
    fn external_policies(&self) -> impl Iterator<Item = PolicyRow> {
        let found = external::programs(&self.parts.config.external);
        found.into_iter().map(|launch| PolicyRow {
            name: launch.name(),
            summary: "A program outside of numad, see docs/external-policies.md.".to_owned(),
            settings: Vec::new(),
        })
    }

    /// What this machine can and cannot give.
    pub fn doctor(&mut self) -> Checkup {
        let now = self.now();
        let Parts {
            machine,
            opener,
            meters,
            hand,
            config,
            topology,
            ..
        } = &mut self.parts;
        let mut known = meters.findings(now);
        known.extend(hand.findings());
        known.extend(bandwidth(topology));
        Checkup {
            surveys: [machine.findings(config), opener.findings(config)],
            known,
        }
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> ConfigText {
        let files = self.parts.files.iter();
        ConfigText {
            files: files.map(|file| file.display().to_string()).collect(),
            text: config::render_effective(&self.parts.config),
            settings: self.parts.config.in_words(),
        }
    }

    /// What the journal holds, each process with its name. Users who are no admins see living processes of their own.
    pub fn journal(&mut self, peer: Peer) -> JournalReport {
        let mut report = self.parts.hand.journal();
        if !peer.admin {
            report.shared.clear();
        }
        let machine = &mut self.parts.machine;
        report.processes.retain_mut(|row| {
            let process = machine.process(Pid(row.pid)).ok().flatten();
            let process = process.filter(|now| row.start == 0 || now.start.0 == row.start);
            let own = process
                .as_ref()
                .is_some_and(|process| process.rights.uids.all(peer.uid));
            row.command = process.map(|process| process.command);
            peer.admin || own
        });
        report
    }

    /// The program of this number, if the peer may see it.
    pub(super) fn visible(&self, peer: Peer, id: AttachmentId) -> Result<&Program, Failure> {
        let program = self.programs.get(&id).ok_or_else(|| no_attachment(id))?;
        if may_see(peer, program) {
            Ok(program)
        } else {
            Err(not_yours(id))
        }
    }

    /// The row of an attachment that is there.
    pub(super) fn shown(&mut self, id: AttachmentId) -> Result<Attachment, Failure> {
        let kernel = self.kernel_now();
        self.row(id, kernel).ok_or_else(|| no_attachment(id))
    }

    fn row(&mut self, id: AttachmentId, kernel: KernelNow) -> Option<Attachment> {
        let source = self.source_in_words();
        let program = self.programs.get(&id)?;
        let tasks = self.engine.tasks(id);
        let alive: BTreeSet<_> = tasks.iter().map(|task| task.key).collect();
        let window = &program.window;
        Some(Attachment {
            id: id.0,
            pids: self.members.pids(id).map(|pid| pid.0).collect(),
            command: program.command.clone(),
            uid: program.uid,
            policy: program.policy.clone(),
            dry_run: program.recorder.is_some(),
            attached_s: self.now().since(program.since).as_secs_f64(),
            source,
            windows: program.windows,
            window_ms: self.window_ms(id),
            threads: short(tasks.len()),
            tasks: short(tasks.iter().filter(|task| task.takes_part).count()),
            samples: program.samples,
            samples_window: window.samples,
            lost: program.lost,
            pages: window.pages,
            evidence: self.evidence(id, window),
            ledger: program.ledger(&alive),
            moving: program.moving(self.now()),
            distance: window.distance_centi.map(|centi| f64::from(centi) / 100.0),
            local_share: window
                .local_permille
                .map(|permille| f64::from(permille) / 1000.0),
            counts: self.parts.meters.counts(id),
            external: program.external(),
            ranks: program.ranks.rows(),
            in_vain: program.in_vain.clone(),
            kernel: self.kernel_moves(id, program, kernel),
            unseen_share: self.unseen_share(window, kernel),
        })
    }

    /// What the kernel's balancing does just now.
    fn kernel_now(&mut self) -> KernelNow {
        let machine = &mut self.parts.machine;
        let balances = machine.kernel_balances();
        let moved_pages = balances.then(|| machine.moved_by_kernel());
        KernelNow {
            balances,
            moved_pages: moved_pages.flatten(),
        }
    }

    fn kernel_moves(
        &self,
        id: AttachmentId,
        program: &Program,
        kernel: KernelNow,
    ) -> Option<KernelMoves> {
        let totals = self.engine.totals(id).filter(|_| kernel.balances)?;
        let since = kernel.moved_pages.zip(program.kernel_before);
        Some(KernelMoves {
            machine_pages: since.map(|(now, before)| now.saturating_sub(before)),
            pages_elsewhere: totals.pages_elsewhere,
            left: totals.vetoes.get(&Veto::Kernel).copied().unwrap_or(0),
        })
    }

    /// Share of a program's memory that page faults did not show, where they are of writes alone. Where
    /// there is one node it is of no matter.
    fn unseen_share(&self, window: &WindowSummary, kernel: KernelNow) -> Option<f64> {
        let matters = self.parts.topology.nodes().len() > 1 && !kernel.balances;
        let permille = window.unseen_permille.filter(|_| matters)?;
        Some(f64::from(permille) / 1000.0)
    }

    fn evidence(&self, id: AttachmentId, window: &WindowSummary) -> Evidence {
        let certainty = self.engine.certainty(id);
        let each = |count: u32| window.samples_judged as f64 / f64::from(count.max(1));
        Evidence {
            samples: window.samples_judged,
            samples_per_task: each(window.tasks),
            samples_per_page: each(window.pages),
            lost_share: f64::from(window.lost_permille) / 1000.0,
            coverage: f64::from(window.coverage_permille) / 1000.0,
            confidence_min: certainty.map_or(0.0, Certainty::confidence),
            confident: window.confident,
        }
    }

    fn window_ms(&self, id: AttachmentId) -> u64 {
        let length = self
            .engine
            .next_window(id)
            .map(|(_, length)| length.as_millis());
        length.map_or(0, |length| u64::try_from(length).unwrap_or(u64::MAX))
    }

    fn thread(&self, task: &TaskState) -> ThreadRow {
        ThreadRow {
            pid: task.key.pid.0,
            tid: task.key.tid.0,
            name: task.name.clone(),
            cpu: task.cpu.0,
            node: self.parts.topology.node_of(task.cpu).map(|node| node.0),
            placed: task.placed.map(|node| node.0),
            takes_part: task.takes_part,
            busy: task.busy,
            samples: task.samples,
        }
    }

    fn policy_row(&self, factory: &PolicyFactory) -> PolicyRow {
        let values = self
            .parts
            .config
            .policy(factory.name)
            .map(in_words)
            .unwrap_or_default();
        let settings = factory.settings.iter().map(|spec| {
            let default = spec.default_value().to_string();
            SettingRow {
                name: spec.name.to_owned(),
                expects: spec.expectation(),
                value: values
                    .get(spec.name)
                    .cloned()
                    .unwrap_or_else(|| default.clone()),
                default,
                help: spec.help.to_owned(),
            }
        });
        PolicyRow {
            name: factory.name.to_owned(),
            summary: factory.summary.to_owned(),
            settings: settings.collect(),
        }
    }

    fn rate(&self) -> Option<RateStatus> {
        self.source.as_ref()?.source.rate()
    }

    /// Share of the machine that was used lately; none while nothing is attached.
    pub(super) fn used(&self) -> Option<f64> {
        self.source.as_ref()?.overhead.used()
    }

    /// Why the source that is open is not better than it is.
    fn source_notes(&self) -> Vec<String> {
        let Some(open) = &self.source else {
            return Vec::new();
        };
        let passed_over = self.parts.opener.passed_over().iter().cloned();
        let notes = open.source.describe().notes.into_iter();
        let notes = passed_over.chain(notes.map(Cow::into_owned));
        let notes = notes.chain(self.balancing_note());
        notes.chain(self.parts.machine.notes()).collect()
    }

    pub(super) fn source_in_words(&mut self) -> String {
        match &self.source {
            Some(open) => {
                let status = open.source.describe();
                format!("{} ({})", status.name, status.provocation)
            }
            None => self.parts.opener.describe(&self.parts.config),
        }
    }
}

fn may_see(peer: Peer, program: &Program) -> bool {
    let own = |credentials: Credentials| credentials.uid == peer.uid;
    let attached = program.confined_to.is_some_and(own);
    // Who attached it could look into it then, and what was closed since has left it.
    let open = |owner: Credentials| Some(owner) == peer.confinement();
    peer.admin || attached || program.owner.is_some_and(open)
}

fn no_attachment(id: AttachmentId) -> Failure {
    Failure::new(
        ErrorKind::NotFound,
        format!("there is no attachment `{id}`"),
    )
    .remedy("see `numadctl status`")
}

pub(super) fn not_yours(id: AttachmentId) -> Failure {
    Failure::new(
        ErrorKind::NotPermitted,
        format!("attachment `{id}` belongs to someone else"),
    )
    .remedy("ask as root")
}

/// With whom each thread shares most.
fn partners(support: &Support<'_>, tids: &[u32]) -> Vec<Partner> {
    let partners = support.partners().into_iter();
    let row = |partner: numad_core::support::Partner| {
        Some(Partner {
            tid: *tids.get(partner.task)?,
            with: *tids.get(partner.with)?,
            samples: partner.samples,
            share: partner.evidence.share,
            low: partner.evidence.low,
            high: partner.evidence.high,
            sure: partner.evidence.convinces(),
        })
    };
    partners.filter_map(row).collect()
}

fn rows_of(matrix: &CommMatrix, count: usize) -> Vec<Vec<u64>> {
    (0..count.min(matrix.count()))
        .map(|task| matrix.row(task).to_vec())
        .collect()
}

/// A count as it goes over the socket.
fn short(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether it is known how much the memory of each node can deliver; nothing to say where all is
/// one node's.
fn bandwidth(topology: &Topology) -> Option<Finding> {
    const SUBJECT: &str = "bandwidth of nodes";
    if topology.nodes_with_memory().iter().count() < 2 {
        return None;
    }
    Some(
        match MachineModel::new(topology).controllers_origin(topology) {
            Origin::Estimated => {
                let text = "not known: threads and memory are placed by distance, and a program whose memory \
                answers too much from one node is not helped";
                let remedy = "measure it with `numadctl characterize`";
                finding("limited", SUBJECT, text, remedy)
            }
            Origin::Firmware => finding("ok", SUBJECT, "told by firmware", ""),
            Origin::Measured => finding("ok", SUBJECT, "measured", ""),
        },
    )
}
