//! The Iceberg gateway against a catalog that misbehaves on cue, and against a real one.

mod commits;
mod duckdb;
mod faults;
mod http;
mod oauth;
mod passing;
mod real;
mod scripted;
mod seaweed;
