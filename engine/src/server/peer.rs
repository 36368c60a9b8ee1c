//! What the kernel knows about the other end of a socket.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// True once the other end is closed, even if unread frames are still in between.
pub fn is_gone(socket: &UnixStream) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().intersects(gone)
}

/// The user that the other end runs as.
pub fn uid(socket: &UnixStream) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_end_is_known_and_seen_to_go() {
        let (here, there) = UnixStream::pair().unwrap();
        assert_eq!(uid(&here).unwrap(), rustix::process::geteuid().as_raw());
        assert!(!is_gone(&here));
        drop(there);
        assert!(is_gone(&here));
    }
}
