//! Long work in short turns: a kernel that preempts at its tick only makes others wait for milliseconds behind a busy loop.

use std::time::{Duration, Instant};

/// Longest that work keeps a processor. Others' statements take about a millisecond; a change of turns takes microseconds.
const TURN: Duration = Duration::from_micros(200);

/// Gives the processor to whoever waits for it, after each turn. To be asked several times a turn.
pub struct Turns {
    began: Instant,
}

impl Turns {
    pub fn begin() -> Self {
        Self { began: Instant::now() }
    }

    pub fn offer(&mut self) {
        if self.began.elapsed() >= TURN {
            std::thread::yield_now();
            self.began = Instant::now();
        }
    }
}
