//! Every order in which reader and writer can see each other's loads and stores, tried by loom.
//!
//! The reader is [`Span`], as it runs in the daemon. The writer does what the kernel does
//! (`__perf_output_begin` and `perf_output_put_handle`): it looks at the tail, writes the record, and
//! then publishes the head. Memory is cells that loom watches: a read and a write of one cell that
//! nothing orders fail the test, whichever of them comes first in the run.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{Counter, Span};

impl Counter for AtomicU64 {
    fn acquire(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn own(&self) -> u64 {
        self.load(Ordering::Relaxed)
    }

    fn release(&self, value: u64) {
        self.store(value, Ordering::Release);
    }
}

const WORD: usize = 8;

/// A ring of as many words.
struct Memory<const WORDS: usize> {
    head: AtomicU64,
    tail: AtomicU64,
    words: [UnsafeCell<u64>; WORDS],
}

impl<const WORDS: usize> Memory<WORDS> {
    /// Counters begin shortly before they overflow, so that this is tried too.
    fn new() -> Arc<Self> {
        let start = u64::MAX - 7;
        Arc::new(Self {
            head: AtomicU64::new(start),
            tail: AtomicU64::new(start),
            words: std::array::from_fn(|_| UnsafeCell::new(0)),
        })
    }

    /// The kernel's side: false if there is no room.
    fn write(&self, record: &[u64]) -> bool {
        let head = self.head.own();
        let tail = self.tail.acquire();
        let bytes = (record.len() * WORD) as u64;
        if head.wrapping_sub(tail) + bytes > (WORDS * WORD) as u64 {
            return false;
        }
        for (number, value) in (0u64..).zip(record) {
            let place = usize::try_from(head.wrapping_add(number * 8) / 8).unwrap() % WORDS;
            // SAFETY: loom checks that nobody reads or writes the cell meanwhile.
            self.words[place].with_mut(|word| unsafe { *word = *value });
        }
        self.head.release(head.wrapping_add(bytes));
        true
    }

    /// Ours.
    fn read(&self, seen: &mut Vec<u64>) {
        let span = Span::unread(&self.head, &self.tail, WORDS * WORD);
        assert!(!span.is_overrun());
        let (first, second) = span.pieces();
        for at in first.chain(second).step_by(WORD) {
            // SAFETY: loom checks that nobody writes the cell meanwhile.
            seen.push(self.words[at / WORD].with(|word| unsafe { *word }));
        }
        span.give_back(&self.tail);
    }
}

/// Nothing is torn, repeated or reordered, and what is missing was counted.
#[test]
fn a_reader_follows_a_writer() {
    loom::model(|| {
        let memory = Memory::<4>::new();
        let kernel = Arc::clone(&memory);
        let writer = thread::spawn(move || {
            // Records of two words and of one, so that both ends of the ring fall within one.
            let records: [&[u64]; 5] = [&[1, 1], &[2], &[3, 3], &[4], &[5, 5]];
            records.map(|record| kernel.write(record))
        });
        let mut seen = Vec::new();
        memory.read(&mut seen);
        memory.read(&mut seen);
        let written = writer.join().unwrap();
        memory.read(&mut seen);
        let expected: Vec<u64> = (1..)
            .zip(written)
            .filter(|(_, written)| *written)
            .flat_map(|(number, _)| vec![number; if number % 2 == 1 { 2 } else { 1 }])
            .collect();
        assert_eq!(seen, expected);
    });
}

/// The trace area's promise: whoever reads its head first and the record ring's head after that sees every
/// record that was written before the trace was published.
#[test]
fn records_are_seen_before_the_trace_they_explain() {
    loom::model(|| {
        let ring = Memory::<4>::new();
        let trace = Memory::<2>::new();
        let (our_ring, our_trace) = (Arc::clone(&ring), Arc::clone(&trace));
        let reader = thread::spawn(move || {
            let span = Span::unread(&our_trace.head, &our_trace.tail, 2 * WORD);
            let mut seen = Vec::new();
            our_ring.read(&mut seen);
            assert!(seen.len() * WORD >= span.length());
            span.give_back(&our_trace.tail);
        });
        for number in [1, 2] {
            assert!(ring.write(&[number]));
            assert!(trace.write(&[number]));
        }
        reader.join().unwrap();
    });
}
