//! What a person at a terminal sees while something takes long; without a terminal it is hidden and the logs tell.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

pub struct Progress(ProgressBar);

impl Progress {
    pub fn start(what: String, steps: u64) -> Self {
        let target = if stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:20}] {pos}/{len} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Begins the next step.
    pub fn step(&self, name: &'static str) {
        self.0.set_message(name);
        self.0.inc(1);
    }

    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
