//! How the C library's allocator, which DuckDB shares, treats the buffers of batches.

#![allow(unsafe_code)]

/// Buffers up to this size are kept for the next batch, in bytes. Each of the allocator's arenas may keep twice as much.
const KEPT_BYTES: i32 = 8 * 1024 * 1024;

/// Lets the allocator keep buffers of some megabytes, which are wanted again in a moment: given back and fetched anew,
/// their page faults are a third of what sending rows costs.
pub fn keep_buffers() {
    // SAFETY: sets numbers of this process's allocator. Without the first, the second would only do harm.
    unsafe {
        if libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES) == 1 {
            libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * KEPT_BYTES);
        }
    }
}
