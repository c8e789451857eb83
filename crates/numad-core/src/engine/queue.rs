//! Events that wait to be polled.

use std::collections::VecDeque;

use crate::action::AttachmentId;
use crate::event::{Event, EventKind};
use crate::time::Time;

/// The latest events; older ones are dropped and counted.
#[derive(Debug)]
pub(super) struct Events {
    pub waiting: VecDeque<Event>,
    most: usize,
    pub dropped: u64,
}

impl Events {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            most,
            dropped: 0,
        }
    }

    pub(super) fn push(&mut self, time: Time, attachment: AttachmentId, kind: EventKind) {
        if self.waiting.len() >= self.most {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        self.waiting.push_back(Event {
            time,
            attachment,
            kind,
        });
    }
}
