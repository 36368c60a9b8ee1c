//! `coldfront-archiver`: the command line. At this version it knows its name and its version.

use clap::Parser;

/// ColdFront archiver
#[derive(Parser)]
#[command(name = "coldfront-archiver", version)]
struct Cli {}

fn main() {
    Cli::parse();
}
