//! From any bytes to a recording in order. For the fuzz target `replay` and the test that runs its
//! corpus.

use std::path::Path;
use std::time::Duration;

use numad_core::{AccessKind, Lifecycle, Record, Sample, Sent, ServedBy, Time};
use sampler::{Header, RecordingWriter};
use topology::{CpuId, Pid, Tid};

/// Each entry is four bytes: kind and thread, time that has passed, processor and page, kind of access.
pub(crate) fn recording(bytes: &[u8]) -> Vec<u8> {
    let header = Header {
        page_bytes: 4096,
        topology: "2x2x2@10,20".to_owned(),
        messages: true,
        ..Header::default()
    };
    let path = Path::new("fuzzed");
    let mut writer = RecordingWriter::new(Vec::new(), path, &header).expect("memory takes it");
    let mut time = Time(1);
    writer.record(&sample(time, [0, 0, 0, 0])).expect("memory");
    for entry in bytes.chunks_exact(4) {
        let entry = [entry[0], entry[1], entry[2], entry[3]];
        time = time.after(Duration::from_micros(u64::from(entry[1]) * 400));
        let (pid, tid) = who(entry[0]);
        let change = match entry[0] >> 5 {
            0 => Lifecycle::Fork {
                time,
                pid,
                tid,
                parent: Pid(1),
            },
            1 => Lifecycle::Exit { time, pid, tid },
            2 if entry[3] >= 128 => {
                let sent = Record::Sent(sent(pid, entry));
                writer.record(&sent).expect("memory takes it");
                continue;
            }
            2 => Lifecycle::Renamed {
                time,
                pid,
                tid,
                name: "x".to_owned(),
                exec: entry[3] % 2 == 0,
            },
            3 => {
                writer.mark(time).expect("memory takes it");
                continue;
            }
            _ => {
                let sample = sample(time, entry);
                writer.record(&sample).expect("memory takes it");
                continue;
            }
        };
        let change = Record::Lifecycle(change);
        writer.record(&change).expect("memory takes it");
    }
    writer.finish().expect("memory takes it")
}

fn who(byte: u8) -> (Pid, Tid) {
    let number = u32::from(byte & 31) + 1;
    (Pid((number - 1) / 8 * 8 + 1), Tid(number))
}

/// Up to all there can be, at once.
fn sent(from: Pid, entry: [u8; 4]) -> Sent {
    let (to, _) = who(entry[2]);
    let most = |shift: u8| 1u64.checked_shl(u32::from(shift)).unwrap_or(u64::MAX);
    Sent {
        from,
        to,
        bytes: most(entry[1]),
        messages: most(entry[3]),
    }
}

fn sample(time: Time, entry: [u8; 4]) -> Record {
    let (pid, tid) = who(entry[0]);
    Record::Sample(Sample {
        time,
        pid,
        tid,
        address: u64::from(entry[2] >> 3) * 4096,
        physical: 0,
        cpu: CpuId(u32::from(entry[2] & 7)),
        kind: AccessKind::Unknown,
        served: match entry[3] & 3 {
            0 => ServedBy::LocalMemory,
            1 => ServedBy::RemoteMemory,
            _ => ServedBy::Unknown,
        },
        weight: 0,
        period: u64::from(entry[3]) + 1,
    })
}
