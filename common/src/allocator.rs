//! How the C library's allocator treats the buffers of batches.

#![allow(unsafe_code)]

use std::sync::Once;

/// Lets the allocator keep buffers of up to `bytes`, which are wanted again in a moment, and twice as much at the end of
/// each arena: given back and fetched anew, their page faults cost as much as the rows. The first call of a process
/// decides; glibc takes at most 32 MiB.
pub fn keep_buffers(bytes: i32) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: sets numbers of this process's allocator. Without the first, the second would only do harm.
        unsafe {
            if libc::mallopt(libc::M_MMAP_THRESHOLD, bytes) == 1 {
                libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * bytes);
            }
        }
    });
}
