//! What the engine knows, for those who look things up and show them.

use std::time::Duration;

use topology::{CpuId, NodeId, Pid, TaskKey};

use super::Seen;
use super::program::Positions;
use crate::action::AttachmentId;
use crate::engine::{Engine, Totals};
use crate::evidence::Certainty;
use crate::matrix::CommMatrix;
use crate::observation::TaskState;
use crate::policy::Page;
use crate::time::Time;

impl Engine {
    /// Numbers of all attached programs, ascending.
    #[must_use]
    pub fn attachments(&self) -> Vec<AttachmentId> {
        self.by_id.keys().copied().collect()
    }

    /// Processes of a program, ascending, those included that it forked since.
    #[must_use]
    pub fn pids(&self, attachment: AttachmentId) -> Vec<Pid> {
        let Some(seen) = self.seen(attachment) else {
            return Vec::new();
        };
        let pids = seen.spaces.iter().filter_map(|(_, space)| space.pid);
        let mut pids: Vec<Pid> = pids.collect();
        pids.sort_unstable();
        pids
    }

    /// What was counted of a program.
    #[must_use]
    pub fn totals(&self, attachment: AttachmentId) -> Option<&Totals> {
        self.attachment(attachment)
            .map(|attachment| &attachment.totals)
    }

    /// When a program's window ends and how long it is; none when it is not there or has ended.
    #[must_use]
    pub fn next_window(&self, attachment: AttachmentId) -> Option<(Time, Duration)> {
        let attachment = self.attachment(attachment)?;
        Some((attachment.window_end?, attachment.judged.interval()))
    }

    /// Threads of a program by ascending thread number, for those who show them; empty when there is
    /// no such program. Only threads that an observation showed are there.
    #[must_use]
    pub fn tasks(&self, attachment: AttachmentId) -> Vec<TaskState> {
        let Some(seen) = self.seen(attachment) else {
            return Vec::new();
        };
        let tasks = seen.tasks.iter().filter_map(|(_, _, record)| {
            Some(TaskState {
                key: record.key()?,
                name: record.name.clone(),
                cpu: record.cpu.unwrap_or(CpuId(0)),
                placed: record.placed().map(|node| self.topology.nodes()[node].id),
                takes_part: record.takes_part,
                busy: record.busy.unwrap_or(0.0),
                samples: record.samples_last.into(),
            })
        });
        let mut tasks: Vec<TaskState> = tasks.collect();
        tasks.sort_unstable_by_key(|task| task.key.tid);
        tasks
    }

    /// The tasks that take part and what they say to each other: in the last window, and decayed.
    #[must_use]
    pub fn matrices(
        &self,
        attachment: AttachmentId,
    ) -> Option<(Vec<TaskKey>, CommMatrix, CommMatrix)> {
        let seen = self.seen(attachment)?;
        let (keys, slots) = seen.participants();
        let (live, decayed) = seen.comm.read_last(&seen.seats_of(&slots));
        Some((keys, live, decayed))
    }

    /// Samples that an amount of 1 in the matrices stands for: one over the mean period of the samples
    /// lately; 0 while there are none.
    #[must_use]
    pub fn samples_per_amount(&self, attachment: AttachmentId) -> f64 {
        let each = self.seen(attachment).map_or(0.0, Seen::weight_per_sample);
        if each > 0.0 { 1.0 / each } else { 0.0 }
    }

    /// How sure moves of a program must be.
    #[must_use]
    pub fn certainty(&self, attachment: AttachmentId) -> Option<Certainty> {
        Some(self.attachment(attachment)?.options.certainty)
    }

    /// Tracked pages of a program with their homes, hottest first, at most `max`. Accessors are
    /// positions in the tasks of [`Self::matrices`].
    #[must_use]
    pub fn pages(&self, attachment: AttachmentId, max: usize) -> Vec<(Page, Option<NodeId>)> {
        let Some(seen) = self.seen(attachment) else {
            return Vec::new();
        };
        let (_, slots) = seen.participants();
        let positions = Positions::new(&seen.seats_of(&slots), seen);
        let hottest = seen.pages.hottest(max).into_iter();
        hottest
            .filter_map(|(slot, tag, entry)| {
                let page = positions.page(seen.key(tag)?, slot, &entry);
                let home = page.node().map(|home| self.topology.nodes()[home].id);
                Some((page, home))
            })
            .collect()
    }
}

impl Seen {
    /// Tasks that take part by ascending thread number, with their slots.
    fn participants(&self) -> (Vec<TaskKey>, Vec<u32>) {
        let tasks = self.tasks.iter().filter(|(_, _, record)| record.takes_part);
        let tasks = tasks.filter_map(|(slot, _, record)| Some((record.key()?, slot)));
        let mut tasks: Vec<(TaskKey, u32)> = tasks.collect();
        tasks.sort_unstable_by_key(|(key, _)| key.tid);
        tasks.into_iter().unzip()
    }
}
