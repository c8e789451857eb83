//! Empty room.
