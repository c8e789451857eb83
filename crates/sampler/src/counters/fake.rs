//! Counters that are not there, for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use super::open::{Counter, CounterOpener, CounterRefused, CounterSpec};
use super::reading::Reading;

/// Opens counters whose values a test sets; copies are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeOpener(Arc<Mutex<Fakes>>);

#[derive(Debug, Default)]
pub(crate) struct Fakes {
    /// By the order of opening; none once closed.
    pub(crate) open: BTreeMap<usize, (CounterSpec, Reading)>,
    pub(crate) opened: usize,
    /// What is refused, by PMU and event.
    pub(crate) refused: Vec<(u32, Option<u64>, CounterRefused)>,
    /// Reading fails from now on.
    pub(crate) broken: bool,
}

#[derive(Debug)]
struct Fake {
    number: usize,
    all: FakeOpener,
}

impl FakeOpener {
    pub(crate) fn state(&self) -> MutexGuard<'_, Fakes> {
        self.0.lock().unwrap()
    }

    /// Lets every open counter for which `rate` gives something count for a time.
    pub(crate) fn count(&self, ns: u64, rate: impl Fn(&CounterSpec) -> u64) {
        for (spec, reading) in self.state().open.values_mut() {
            reading.value += rate(spec);
            reading.enabled_ns += ns;
            reading.running_ns += ns;
        }
    }
}

impl CounterOpener for FakeOpener {
    fn open(&mut self, spec: &CounterSpec) -> Result<Box<dyn Counter>, CounterRefused> {
        let mut state = self.state();
        let meant = |(pmu, config, _): &&(u32, Option<u64>, CounterRefused)| {
            *pmu == spec.event.pmu && config.is_none_or(|config| config == spec.event.config)
        };
        if let Some((_, _, why)) = state.refused.iter().find(meant) {
            return Err(*why);
        }
        let number = state.opened;
        state.opened += 1;
        state.open.insert(number, (*spec, Reading::default()));
        Ok(Box::new(Fake {
            number,
            all: self.clone(),
        }))
    }
}

impl Counter for Fake {
    fn read(&mut self) -> io::Result<Reading> {
        let state = self.all.state();
        if state.broken {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(state.open[&self.number].1)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.all.state().open.remove(&self.number);
    }
}
