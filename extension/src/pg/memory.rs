//! How the C library's allocator treats the buffers of batches.

#![allow(unsafe_code)]

/// Buffers up to this size are kept for the next batch, in bytes: the most that glibc takes.
const KEPT_BYTES: i32 = 32 * 1024 * 1024;

/// Lets the allocator keep buffers of several megabytes, which are wanted again in a moment: given back and fetched anew,
/// their page faults cost as much as the rows.
pub fn keep_large_buffers() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: sets numbers of this process's allocator. Without the first, the second would only do harm.
        unsafe {
            if libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES) == 1 {
                libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * KEPT_BYTES);
            }
        }
    });
}
