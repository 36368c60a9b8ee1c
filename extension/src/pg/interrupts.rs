//! Latch waits and interrupts of the backend process.

#![allow(unsafe_code)]

use std::os::fd::RawFd;

use pgrx::pg_sys;

/// What to wait for on a socket.
#[derive(Clone, Copy)]
pub enum Ready {
    Read,
    Write,
}

/// Whether an interrupt waits that [`serve`] would act on.
pub fn pending() -> bool {
    // SAFETY: plain reads of process-local flags that signal handlers set.
    unsafe {
        pg_sys::InterruptPending != 0
            && pg_sys::InterruptHoldoffCount == 0
            && pg_sys::CritSectionCount == 0
            && (pg_sys::QueryCancelPending != 0 || pg_sys::ProcDiePending != 0)
    }
}

/// Whether some other interrupt waits: a barrier, a timeout that ends the session, a request for information.
pub fn others_pending() -> bool {
    // SAFETY: as in `pending`.
    unsafe { pg_sys::InterruptPending != 0 && !pending() }
}

/// Serves interrupts: raises for a cancel or a termination, returns otherwise.
pub fn serve() {
    pgrx::check_for_interrupts!();
}

/// Sleeps until the latch is set or `timeout_ms` passed.
pub fn wait_latch(timeout_ms: i64) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    // SAFETY: MyLatch is valid for the life of the process.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as i32, timeout_ms, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// Waits until the socket is ready, the latch is set, or `timeout_ms` passed (−1: no limit).
pub fn wait_socket(fd: RawFd, ready: Ready, timeout_ms: i64) {
    let mut events = pg_sys::WL_LATCH_SET | pg_sys::WL_EXIT_ON_PM_DEATH;
    events |= match ready {
        Ready::Read => pg_sys::WL_SOCKET_READABLE,
        Ready::Write => pg_sys::WL_SOCKET_WRITEABLE,
    };
    if timeout_ms >= 0 {
        events |= pg_sys::WL_TIMEOUT;
    }
    // SAFETY: MyLatch is valid for the life of the process, the descriptor is open while its owner waits.
    unsafe {
        let got = pg_sys::WaitLatchOrSocket(pg_sys::MyLatch, events as i32, fd, timeout_ms, pg_sys::PG_WAIT_EXTENSION);
        if got as u32 & pg_sys::WL_LATCH_SET != 0 {
            pg_sys::ResetLatch(pg_sys::MyLatch);
        }
    }
}

/// Whether a read on `fd` would not block.
pub fn poll_readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd, no wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}
