//! Runs a piece of code with other privileges than the session user's, and always switches back.

#![allow(unsafe_code)]

use pgrx::pg_sys;

/// Restores the user and security context when it goes out of scope, also by unwinding.
struct Restore {
    user: pg_sys::Oid,
    context: i32,
}

impl Drop for Restore {
    fn drop(&mut self) {
        // SAFETY: both values came from GetUserIdAndSecContext in this process.
        unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.context) };
    }
}

/// Runs `f` as the bootstrap superuser. `f` may only run SQL that this crate ships, with every name qualified.
pub fn as_bootstrap_superuser<T>(f: impl FnOnce() -> T) -> T {
    as_user(pg_sys::Oid::from(pg_sys::BOOTSTRAP_SUPERUSERID), f)
}

/// Runs `f` as `user`, with SET ROLE forbidden inside.
pub fn as_user<T>(user: pg_sys::Oid, f: impl FnOnce() -> T) -> T {
    let mut restore = Restore { user: pg_sys::InvalidOid, context: 0 };
    // SAFETY: out-pointers are valid; the context only gains a flag.
    unsafe {
        pg_sys::GetUserIdAndSecContext(&raw mut restore.user, &raw mut restore.context);
        pg_sys::SetUserIdAndSecContext(user, restore.context | pg_sys::SECURITY_LOCAL_USERID_CHANGE as i32);
    }
    let _restore = restore;
    f()
}

/// The user whose privileges apply now.
pub fn current_user() -> pg_sys::Oid {
    // SAFETY: reads process-local state.
    unsafe { pg_sys::GetUserId() }
}
