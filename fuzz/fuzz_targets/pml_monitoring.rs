#![no_main]

use profile::monitoring::Messages;
use profile::table::Table;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut messages = Messages::default();
    if messages.add(text).is_ok() {
        let ranks = messages.ranks();
        assert!(messages.sent.keys().all(|(from, to)| (*from.max(to) as usize) < ranks));
    }
    if let Ok(table) = Table::parse(text) {
        assert!(table.rows.iter().all(|row| row.len() == table.names.len()));
    }
});
