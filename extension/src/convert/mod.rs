//! Values between Arrow arrays and PostgreSQL datums.
//!
//! Whole columns at a time: reading builds the datums of a batch before its first row is handed out.

pub mod read;
pub mod write;

/// Buffers of batches up to this size are kept by a backend's allocator, in bytes.
pub const KEPT_BUFFER_BYTES: i32 = 32 * 1024 * 1024;
/// Days between the epochs of Unix (1970-01-01) and PostgreSQL (2000-01-01).
pub const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
