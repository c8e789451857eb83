use std::thread;

use super::fake::FakeKernel;
use super::*;

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

/// A writer at full speed against the reader: what comes is whole, in order, and with the losses
/// adds up to what was written.
#[test]
fn a_writer_at_full_speed_is_followed() {
    const RECORDS: u64 = 200_000;
    let (mut ring, mut kernel) = FakeKernel::new(1, 0).unwrap();
    let writer = thread::spawn(move || {
        for number in 0..RECORDS {
            // Different lengths, so that the wrap falls everywhere.
            let words = vec![number; 1 + usize::try_from(number % 5).unwrap()];
            kernel.write(&record(&words));
        }
        kernel.lost
    });
    let (mut seen, mut lost, mut next) = (0u64, 0u64, 0u64);
    let mut read = |ring: &mut Ring| {
        let unread = ring.unread();
        let bytes = joined(&unread);
        unread.take();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let size = usize::from(u16::from_ne_bytes([rest[6], rest[7]]));
            let words: Vec<u64> = rest[8..size]
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
                .collect();
            if rest[0] == 2 {
                lost += words[1];
            } else {
                seen += 1;
                assert!(words[0] >= next, "{} came after {next}", words[0]);
                next = words[0] + 1;
                assert!(words.iter().all(|word| *word == words[0]));
                assert_eq!(words.len() as u64, 1 + words[0] % 5);
            }
            rest = &rest[size..];
        }
    };
    while !writer.is_finished() {
        read(&mut ring);
    }
    let lost_by_event = writer.join().unwrap();
    read(&mut ring);
    // Losses after the last record that found room show in the event's own count only.
    assert!(lost <= lost_by_event);
    assert_eq!(seen + lost_by_event, RECORDS);
}
