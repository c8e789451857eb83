use std::thread;

use super::fake::FakeKernel;
use super::*;
use crate::decode::{Body, Decoded, Field, Layout, Trailer, Visitor, stream};

fn record(words: &[u64]) -> Vec<u8> {
    let size = u16::try_from(8 + words.len() * 8).unwrap();
    let mut bytes = 9u32.to_ne_bytes().to_vec();
    bytes.extend(0u16.to_ne_bytes());
    bytes.extend(size.to_ne_bytes());
    words
        .iter()
        .for_each(|word| bytes.extend(word.to_ne_bytes()));
    bytes
}

fn joined(unread: &Unread<'_>) -> Vec<u8> {
    let (first, second) = unread.pieces();
    [first, second].concat()
}

#[test]
fn what_is_written_is_read_wherever_the_ring_wraps() {
    // Every alignment of the wrap within a record, and counters about to overflow.
    let size = page_bytes() as u64;
    for start in (0..size).step_by(8).chain([u64::MAX - 79, u64::MAX - 7]) {
        let (mut ring, mut kernel) = FakeKernel::new(1, start).unwrap();
        let expected = record(&[1, 2, start]);
        assert!(kernel.write(&expected));
        let unread = ring.unread();
        assert_eq!(joined(&unread), expected, "start {start}");
        unread.take();
        assert_eq!(ring.unread().length(), 0);
    }
}

#[test]
fn what_is_not_taken_stays() {
    let (mut ring, mut kernel) = FakeKernel::new(1, 0).unwrap();
    kernel.write(&record(&[1]));
    assert_eq!(ring.unread().length(), 16);
    kernel.write(&record(&[2]));
    assert_eq!(
        joined(&ring.unread()),
        [record(&[1]), record(&[2])].concat()
    );
}

#[test]
fn a_full_ring_loses_and_says_so() {
    let (mut ring, mut kernel) = FakeKernel::new(1, 0).unwrap();
    while kernel.write(&record(&[7])) {}
    assert!(!kernel.write(&record(&[7])));
    assert_eq!(ring.unread().length(), ring.data_bytes());
    ring.unread().take();
    assert!(kernel.write(&record(&[8])));
    let bytes = joined(&ring.unread());
    assert_eq!(&bytes[16..24], &2u64.to_ne_bytes(), "two were lost");
    assert_eq!(&bytes[24..], record(&[8]));
}

#[test]
fn an_impossible_head_gives_nothing() {
    let (mut ring, kernel) = FakeKernel::new(1, 0).unwrap();
    kernel.set_head(u64::MAX / 2);
    let unread = ring.unread();
    assert!(unread.is_overrun());
    assert_eq!(joined(&unread), b"");
    unread.take();
    assert!(
        !ring.unread().is_overrun(),
        "and the reader goes on behind it"
    );
}

#[test]
fn only_powers_of_two_are_mapped() {
    let file = nix::sys::memfd::memfd_create("x", nix::sys::memfd::MFdFlags::empty()).unwrap();
    for pages in [0, 3] {
        let error = Ring::map(&file, pages).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{pages}");
    }
}

/// Adds up what comes, and checks that it is whole and in order.
#[derive(Default)]
struct Follower {
    seen: u64,
    lost: u64,
    next: u64,
}

impl Visitor for Follower {
    fn record<B: Body>(&mut self, record: &Decoded<'_, B>) {
        match record {
            Decoded::Lost(count) => self.lost += count,
            Decoded::Sample(view) => {
                let number = view.number(Field::Ip).unwrap();
                assert!(number >= self.next, "{number} came after {}", self.next);
                self.next = number + 1;
                self.seen += 1;
                for field in [Field::Time, Field::Addr, Field::Id] {
                    assert_eq!(view.number(field), Some(number), "torn");
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A writer at full speed against the reader as it runs in the daemon: what comes is whole, in order,
/// and with the losses adds up to what was written.
#[test]
fn a_writer_at_full_speed_is_followed() {
    // Ten million where nothing is checked twice, a million where that takes as long.
    const RECORDS: u64 = if cfg!(debug_assertions) {
        1_000_000
    } else {
        10_000_000
    };
    const WORDS: usize = 4;
    let fields = [Field::Ip, Field::Time, Field::Addr, Field::Id];
    let layout = Layout::new(crate::attr::fields(&fields), Trailer::Absent).unwrap();
    let (mut ring, mut kernel) = FakeKernel::new(2, u64::MAX - 100_007).unwrap();
    let writer = thread::spawn(move || {
        let mut bytes = record(&[0; WORDS + 5]);
        for number in 0..RECORDS {
            // Different lengths, so that the wrap falls everywhere; a sample may be longer than its fields.
            let words = WORDS + usize::try_from(number % 5).unwrap();
            let size = 8 + words * 8;
            bytes[6..8].copy_from_slice(&u16::try_from(size).unwrap().to_ne_bytes());
            for word in bytes[8..size].chunks_exact_mut(8) {
                word.copy_from_slice(&number.to_ne_bytes());
            }
            kernel.write(&bytes[..size]);
        }
        kernel.lost
    });
    let mut follower = Follower::default();
    let mut read = |ring: &mut Ring| {
        let unread = ring.unread();
        assert!(!unread.is_overrun());
        let (first, second) = unread.pieces();
        stream(&layout, first, second, &mut follower).unwrap();
        unread.take();
    };
    while !writer.is_finished() {
        read(&mut ring);
    }
    let lost_by_event = writer.join().unwrap();
    read(&mut ring);
    // Losses after the last record that found room show in the event's own count only.
    assert!(follower.lost <= lost_by_event);
    assert_eq!(follower.seen + lost_by_event, RECORDS);
    assert!(follower.seen > 0);
}
