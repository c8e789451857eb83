//! Empty room.
fn main() {}
