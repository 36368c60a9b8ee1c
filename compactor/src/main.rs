//! `coldfront-compactor`: the command line. At this version it knows its name and its version.

use clap::Parser;

/// ColdFront compactor
#[derive(Parser)]
#[command(name = "coldfront-compactor", version)]
struct Cli {}

fn main() {
    Cli::parse();
}
