//! `Stats`: how large a table is, from its current snapshot's summary.

use coldfront_common::frame::{Failure, Frame, Kind, Stats};

use super::{instance, json, parse};
use crate::server::worker::{Answer, Worker};

pub fn stats(worker: &mut Worker, frame: &Frame) -> Result<Answer, Failure> {
    let stats: Stats = parse(frame)?;
    let instance = instance(worker)?;
    json(Kind::TableStats, &instance.table_stats(&stats)?)
}
