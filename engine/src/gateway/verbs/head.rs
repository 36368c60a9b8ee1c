//! Answers that hold a table's metadata, as DuckDB has to see them: so that it always finds the table's head.
//!
//! DuckDB reads a table as of the time, by its own clock, at which its transaction began: it takes the newest snapshot
//! that is not younger, and a metadata file out of the log if the table was changed since. A table that somebody changed
//! after the begin, or with a clock that is ahead, would be read stale, and a write to it refused with 409. So DuckDB
//! gets the snapshots with the timestamps 1, 2, 3 …, the head last, and no logs; of all but the head without totals.
//! A transaction still sees one state of a table, that of its first use.
//!
//! Old snapshots can be read `AT (VERSION => …)`; `AT (TIMESTAMP => …)` would read the head, whatever the time. What
//! DuckDB commits on top of such an answer carries the real time.

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_json::value::RawValue;

use super::rewrite::Rewrite;

/// Most snapshots that DuckDB gets to see: it reads all of them whenever a transaction first uses the table.
const SNAPSHOTS_MAX: usize = 1000;

pub const REWRITE: Rewrite = Rewrite { what: "table", max_bytes: 256 * 1024 * 1024, change: with_head_in_sight };

/// A JSON object whose values pass byte for byte.
type Object<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Serialize)]
struct Answer<'a> {
    metadata: Metadata<'a>,
    #[serde(flatten)]
    rest: Object<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Metadata<'a> {
    snapshots: Vec<Snapshot<'a>>,
    snapshot_log: [(); 0],
    metadata_log: [(); 0],
    last_updated_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    refs: Option<Object<'a>>,
    #[serde(flatten)]
    rest: Object<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Snapshot<'a> {
    snapshot_id: i64,
    timestamp_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Object<'a>>,
    #[serde(flatten)]
    rest: Object<'a>,
}

/// The answer with another history of the table; None if it holds no table.
fn with_head_in_sight(answer: &[u8]) -> Option<Vec<u8>> {
    let mut answer: Object = serde_json::from_slice(answer).ok()?;
    let mut metadata: Object = serde_json::from_str(answer.remove("metadata")?.get()).ok()?;
    let snapshots = match parsed::<Option<i64>>(&metadata, "current-snapshot-id")? {
        // Any snapshot would be taken for the head; writers of old say -1 for "none".
        None | Some(-1) => Vec::new(),
        Some(head) => in_order(&metadata, head)?,
    };
    let metadata = Metadata {
        refs: match metadata.contains_key("refs") {
            true => Some(refs_to(&snapshots, &metadata)?),
            false => None,
        },
        snapshots,
        snapshot_log: [],
        metadata_log: [],
        last_updated_ms: 1,
        rest: {
            for replaced in ["snapshots", "snapshot-log", "metadata-log", "last-updated-ms", "refs"] {
                metadata.remove(replaced);
            }
            metadata
        },
    };
    serde_json::to_vec(&Answer { metadata, rest: answer }).ok()
}

/// The newest snapshots, oldest first and the head last, dated by their place.
fn in_order<'a>(metadata: &Object<'a>, head: i64) -> Option<Vec<Snapshot<'a>>> {
    let snapshots: Vec<Object> = parsed(metadata, "snapshots")?;
    let mut snapshots: Vec<_> = snapshots.into_iter().map(Snapshot::read).collect::<Option<_>>()?;
    snapshots.sort_by_cached_key(|s| {
        (s.snapshot_id == head, number(&s.rest, "sequence-number").unwrap_or(0), s.timestamp_ms)
    });
    snapshots.drain(..snapshots.len().saturating_sub(SNAPSHOTS_MAX));
    for (place, snapshot) in (1..).zip(&mut snapshots) {
        snapshot.timestamp_ms = place;
        // Half of DuckDB's work with a long history. It builds on the head's totals only.
        if let Some(summary) = snapshot.summary.as_mut().filter(|_| snapshot.snapshot_id != head) {
            summary.retain(|name, _| name == "operation");
        }
    }
    Some(snapshots)
}

impl<'a> Snapshot<'a> {
    fn read(mut rest: Object<'a>) -> Option<Self> {
        let (snapshot_id, timestamp_ms) = (number(&rest, "snapshot-id")?, number(&rest, "timestamp-ms")?);
        let summary = parsed(&rest, "summary")?;
        for read in ["snapshot-id", "timestamp-ms", "summary"] {
            rest.remove(read);
        }
        Some(Self { snapshot_id, timestamp_ms, summary, rest })
    }
}

/// Branches and tags, without those whose snapshot is not shown.
fn refs_to<'a>(snapshots: &[Snapshot], metadata: &Object<'a>) -> Option<Object<'a>> {
    let shown: HashSet<i64> = snapshots.iter().map(|s| s.snapshot_id).collect();
    let mut refs: Object = parsed(metadata, "refs")?;
    refs.retain(|_, reference| {
        let reference: Option<Object> = serde_json::from_str(reference.get()).ok();
        reference.and_then(|r| number(&r, "snapshot-id")).is_some_and(|id| shown.contains(&id))
    });
    Some(refs)
}

/// A part of an object; its default if it is missing or null, None if it is something else.
fn parsed<'a, T: serde::Deserialize<'a> + Default>(object: &Object<'a>, name: &str) -> Option<T> {
    match object.get(name) {
        Some(part) => serde_json::from_str::<Option<T>>(part.get()).ok().map(Option::unwrap_or_default),
        None => Some(T::default()),
    }
}

fn number(object: &Object, name: &str) -> Option<i64> {
    parsed(object, name)?
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn changed(answer: &Value) -> Value {
        serde_json::from_slice(&with_head_in_sight(answer.to_string().as_bytes()).unwrap()).unwrap()
    }

    fn snapshot(id: i64, sequence: i64, timestamp: i64) -> Value {
        let summary = json!({"operation": "append", "total-records": "9"});
        json!({"snapshot-id": id, "sequence-number": sequence, "timestamp-ms": timestamp, "summary": summary,
            "manifest-list": format!("m{id}")})
    }

    /// As one that is not the head is shown.
    fn past(id: i64, sequence: i64, timestamp: i64) -> Value {
        let mut snapshot = snapshot(id, sequence, timestamp);
        snapshot["summary"] = json!({"operation": "append"});
        snapshot
    }

    /// Ids and timestamps.
    fn shown(answer: &Value) -> Vec<(i64, i64)> {
        let snapshots = answer["metadata"]["snapshots"].as_array().unwrap();
        snapshots.iter().map(|s| (s["snapshot-id"].as_i64().unwrap(), s["timestamp-ms"].as_i64().unwrap())).collect()
    }

    #[test]
    fn the_head_is_the_last_of_the_snapshots_and_long_ago() {
        let answer = changed(&json!({
            "metadata-location": "s3://l/t/v3.json",
            "metadata": {
                "current-snapshot-id": 8, "last-sequence-number": 3, "last-updated-ms": 1_900_000_000_000i64,
                "snapshots": [snapshot(9, 2, 1_900_000_000_000), snapshot(-7, 1, 5), snapshot(8, 3, 4)],
                "snapshot-log": [{"snapshot-id": 8, "timestamp-ms": 4}],
                "metadata-log": [{"metadata-file": "f", "timestamp-ms": 3}],
                "refs": {"main": {"snapshot-id": 8, "type": "branch"}, "old": {"snapshot-id": -7, "type": "tag"}}},
            "config": {"a": "b"}}));
        let expected = json!({
            "metadata-location": "s3://l/t/v3.json",
            "metadata": {
                "current-snapshot-id": 8, "last-sequence-number": 3, "last-updated-ms": 1,
                "snapshots": [past(-7, 1, 1), past(9, 2, 2), snapshot(8, 3, 3)],
                "snapshot-log": [], "metadata-log": [],
                "refs": {"main": {"snapshot-id": 8, "type": "branch"}, "old": {"snapshot-id": -7, "type": "tag"}}},
            "config": {"a": "b"}});
        assert_eq!(answer, expected);
    }

    #[test]
    fn a_head_that_is_not_the_newest_snapshot_still_comes_last() {
        let snapshots = [snapshot(1, 1, 10), snapshot(2, 2, 20), snapshot(3, 3, 30)];
        let answer = changed(&json!({"metadata": {"current-snapshot-id": 2, "snapshots": snapshots}}));
        assert_eq!(shown(&answer), [(1, 1), (3, 2), (2, 3)]);
    }

    #[test]
    fn snapshots_without_sequence_numbers_go_by_their_time() {
        let snapshots = [json!({"snapshot-id": 1, "timestamp-ms": 20}), json!({"snapshot-id": 2, "timestamp-ms": 10})];
        let answer = changed(&json!({"metadata": {"current-snapshot-id": 1, "snapshots": snapshots}}));
        assert_eq!(shown(&answer), [(2, 1), (1, 2)]);
    }

    #[test]
    fn of_a_long_history_the_newest_part_is_shown() {
        let snapshots: Vec<Value> = (1..=1500).map(|n| snapshot(n, n, n)).collect();
        let refs = json!({"main": {"snapshot-id": 7}, "tag": {"snapshot-id": 8}, "new": {"snapshot-id": 1400}});
        let answer = changed(&json!({"metadata": {"current-snapshot-id": 7, "snapshots": snapshots, "refs": refs}}));
        let shown = shown(&answer);
        assert_eq!((shown.len(), shown[0], shown[998], shown[999]), (1000, (502, 1), (1500, 999), (7, 1000)));
        assert_eq!(answer["metadata"]["refs"], json!({"main": {"snapshot-id": 7}, "new": {"snapshot-id": 1400}}));
    }

    #[test]
    fn a_table_without_a_head_has_no_snapshots() {
        for head in [json!(null), json!(-1)] {
            let metadata = json!({"current-snapshot-id": head, "last-updated-ms": 9, "snapshots": [snapshot(1, 1, 1)]});
            let answer = changed(&json!({"metadata": metadata}));
            assert_eq!((shown(&answer), &answer["metadata"]["last-updated-ms"]), (vec![], &json!(1)));
        }
        assert_eq!(shown(&changed(&json!({"metadata": {"snapshots": null, "refs": null}}))), []);
    }

    #[test]
    fn numbers_and_texts_pass_to_the_digit() {
        let default = r#"{"a":0.10000000000000000555,"b":123456789012345678901234567890,"c":"\u00fc\/"}"#;
        let text = format!(r#"{{"metadata":{{"schemas":[{default}],"current-snapshot-id":null}}}}"#);
        let changed = String::from_utf8(with_head_in_sight(text.as_bytes()).unwrap()).unwrap();
        assert!(changed.contains(default), "{changed}");
    }

    #[test]
    fn what_is_no_table_stays_as_it_is() {
        let strange = [
            r#"{"metadata":7}"#,
            r#"{"metadata":{"current-snapshot-id":1,"snapshots":7}}"#,
            r#"{"metadata":{"current-snapshot-id":"1","snapshots":[]}}"#,
        ];
        for body in ["", "{", "[]", "{}"].into_iter().chain(strange) {
            assert_eq!(with_head_in_sight(body.as_bytes()), None, "{body}");
        }
    }
}
