//! A kernel that opens events that are not there: memory files laid out like rings, written by tests.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard};

use nix::errno::Errno;
use nix::sys::epoll::Epoll;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;
use topology::CpuId;

use super::{Counts, Kernel, Order};
use crate::attr::EventAttr;
use crate::ring::fake::FakeKernel;
use crate::ring::page_bytes;

/// Largest ring that its files have room for.
const RING_PAGES: usize = 1024;

/// What refuses an event, by error number; none to open it.
pub(crate) type Refuses = fn(&EventAttr, CpuId) -> Option<i32>;

/// See the module. Clones are the same kernel.
#[derive(Clone, Debug)]
pub(crate) struct FakeEvents(Arc<Mutex<State>>);

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) refuses: Refuses,
    /// Every event that was opened, with its processor and whether it joined a group.
    pub(crate) opened: Vec<(EventAttr, CpuId, bool)>,
    /// What was said to events, with the number of the event: the order of opening, from 0.
    pub(crate) orders: Vec<(usize, String)>,
    /// What reading an event gives, beside its id, by number.
    pub(crate) counts: BTreeMap<usize, Result<Counts, i32>>,
    files: Vec<OwnedFd>,
    numbers: BTreeMap<RawFd, usize>,
}

impl FakeEvents {
    pub(crate) fn new(refuses: Refuses) -> Self {
        Self(Arc::new(Mutex::new(State {
            refuses,
            opened: Vec::new(),
            orders: Vec::new(),
            counts: BTreeMap::new(),
            files: Vec::new(),
            numbers: BTreeMap::new(),
        })))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The id of an event of this number.
    pub(crate) const fn id(number: usize) -> u64 {
        1000 + number as u64
    }

    /// The writer of an event's ring, which has so many pages.
    pub(crate) fn ring(&self, number: usize, pages: usize) -> FakeKernel {
        FakeKernel::over(&self.state().files[number], pages).unwrap()
    }

    /// The same with the trace behind it.
    pub(crate) fn traced_ring(&self, number: usize, pages: usize, trace: usize) -> FakeKernel {
        FakeKernel::over_trace(&self.state().files[number], pages, trace).unwrap()
    }
}

impl Kernel for FakeEvents {
    fn open(
        &mut self,
        attr: &EventAttr,
        cpu: CpuId,
        leader: Option<BorrowedFd<'_>>,
    ) -> io::Result<OwnedFd> {
        let mut state = self.state();
        if let Some(errno) = (state.refuses)(attr, cpu) {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let file = memfd_create("event", MFdFlags::MFD_CLOEXEC)?;
        ftruncate(
            &file,
            i64::try_from((RING_PAGES + 1) * page_bytes()).unwrap(),
        )?;
        let number = state.opened.len();
        state.opened.push((*attr, cpu, leader.is_some()));
        state.files.push(file.try_clone()?);
        state.numbers.insert(file.as_raw_fd(), number);
        Ok(file)
    }

    fn order(&self, event: BorrowedFd<'_>, order: Order<'_>) -> io::Result<()> {
        let mut state = self.state();
        let number = state.numbers[&event.as_raw_fd()];
        let text = match order {
            Order::Enable => "enable".to_owned(),
            Order::Disable => "disable".to_owned(),
            Order::Period(period) => format!("period {period}"),
            Order::OutputTo(owner) => format!("output to {}", state.numbers[&owner.as_raw_fd()]),
        };
        state.orders.push((number, text));
        Ok(())
    }

    fn counts(&self, event: BorrowedFd<'_>, _read_format: u64) -> io::Result<Counts> {
        let state = self.state();
        let number = state.numbers[&event.as_raw_fd()];
        let counts = state.counts.get(&number).copied();
        let counts = counts.unwrap_or(Ok(Counts::default()));
        let id = Self::id(number);
        counts
            .map(|counts| Counts { id, ..counts })
            .map_err(io::Error::from_raw_os_error)
    }

    fn watch(&self, _poll: &Epoll, _event: BorrowedFd<'_>, _cpu: CpuId) -> Result<(), Errno> {
        Ok(())
    }
}
