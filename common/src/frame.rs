//! The protocol between a PostgreSQL backend and the engine: typed, versioned, bounded.
//!
//! A frame is `length: u32`, `kind: u8`, `seq: u32`, payload; integers little-endian, `length` counts
//! everything after itself. Control payloads are JSON; Arrow payloads are encapsulated Arrow IPC messages
//! (metadata and body as in an IPC stream, without end-of-stream marker), so both ends decode them with `arrow-ipc`.
//! `seq` numbers a client's requests from 1; a reply carries the number of the request it answers.
//!
//! The client pulls: one request, one reply, except that [`Kind::Cancel`], [`Kind::CloseStream`],
//! [`Kind::InputOpen`], [`Kind::InputData`] and [`Kind::InputEnd`] are never answered. An input that feeds an
//! `Exec` in flight is sent after that `Exec`; the answer to the `Exec` may be an error that arrives before the
//! input ended, and the engine then discards the rest of the input.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Version in the hello; the engine refuses any other.
pub const PROTOCOL_VERSION: u32 = 1;
/// Largest `length` either end accepts, in bytes.
pub const FRAME_MAX_BYTES: usize = 256 * 1024 * 1024;
/// Size at which a sender closes an Arrow batch, in bytes; a single larger row still travels alone.
pub const BATCH_TARGET_BYTES: usize = 1024 * 1024;
/// Bytes of `kind` and `seq`, which the length counts.
const COUNTED_HEAD_BYTES: usize = 5;

/// What a frame is. Values are the wire's; never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// JSON [`Hello`]. Answer: `Ready`.
    Hello = 1,
    /// Empty; cancels the request whose number is this frame's `seq`. Handled out of turn.
    Cancel = 2,
    /// JSON [`Query`]. Answer: `Schema`.
    Query = 3,
    /// JSON [`StreamId`]. Answer: `Batch` or `End`.
    Fetch = 4,
    /// JSON [`StreamId`].
    CloseStream = 5,
    /// JSON [`Exec`]. Answer: `Done`.
    Exec = 6,
    /// `input: u64`, Arrow IPC schema message.
    InputOpen = 7,
    /// `input: u64`, Arrow IPC record batch message.
    InputData = 8,
    /// `input: u64`: the input is complete.
    InputEnd = 9,
    /// Empty; commits the write transaction and ends every read snapshot. Answer: `Done`.
    Commit = 10,
    /// Empty; rolls everything back, removes staged objects, ends every read snapshot. Answer: `Done`.
    Rollback = 11,
    /// JSON [`Stats`]. Answer: `TableStats`.
    Stats = 12,

    /// JSON [`Ready`].
    Ready = 65,
    /// JSON [`Failure`].
    Error = 66,
    /// Arrow IPC schema message.
    Schema = 67,
    /// Arrow IPC record batch message.
    Batch = 68,
    /// JSON [`End`].
    End = 69,
    /// JSON [`Done`].
    Done = 70,
    /// JSON [`TableStats`].
    TableStats = 71,
}

impl TryFrom<u8> for Kind {
    type Error = io::Error;

    fn try_from(value: u8) -> Result<Self, io::Error> {
        use Kind::*;
        [
            Hello,
            Cancel,
            Query,
            Fetch,
            CloseStream,
            Exec,
            InputOpen,
            InputData,
            InputEnd,
            Commit,
            Rollback,
            Stats,
            Ready,
            Kind::Error,
            Schema,
            Batch,
            End,
            Done,
            TableStats,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == value)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("unknown frame kind {value}")))
    }
}

/// One frame as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: Kind,
    pub seq: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Decodes a JSON payload.
    pub fn json<T: DeserializeOwned>(&self) -> io::Result<T> {
        serde_json::from_slice(&self.payload).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
    }

    /// Splits the payload of an `Input*` frame into the input's number and the rest.
    pub fn input(&self) -> io::Result<(u64, &[u8])> {
        match self.payload.split_first_chunk::<8>() {
            Some((id, rest)) => Ok((u64::from_le_bytes(*id), rest)),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "input frame without an input number")),
        }
    }
}

/// Encodes a frame whose payload is the concatenation of `parts`.
pub fn encode(kind: Kind, seq: u32, parts: &[&[u8]]) -> Vec<u8> {
    let length = COUNTED_HEAD_BYTES + parts.iter().map(|p| p.len()).sum::<usize>();
    let mut out = Vec::with_capacity(4 + length);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    out.push(kind as u8);
    out.extend_from_slice(&seq.to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// Encodes a frame with a JSON payload.
pub fn encode_json<T: Serialize>(kind: Kind, seq: u32, value: &T) -> Vec<u8> {
    let json = serde_json::to_vec(value).expect("protocol types always serialise");
    encode(kind, seq, &[&json])
}

/// Bytes in front of a payload: length, kind, seq.
pub const HEAD_BYTES: usize = 9;

/// Decodes the head of a frame into kind, request number and length of the payload in bytes.
/// Errors when the frame would exceed [`FRAME_MAX_BYTES`], is too short, or has an unknown kind.
pub fn decode_head(head: [u8; HEAD_BYTES]) -> io::Result<(Kind, u32, usize)> {
    let [a, b, c, d, kind, seq @ ..] = head;
    let length = decode_length([a, b, c, d])?;
    Ok((Kind::try_from(kind)?, u32::from_le_bytes(seq), length - COUNTED_HEAD_BYTES))
}

fn decode_length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if (COUNTED_HEAD_BYTES..=FRAME_MAX_BYTES).contains(&length) {
        Ok(length)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, format!("frame length {length} is out of bounds")))
    }
}

/// Reads one frame from a blocking stream; `None` at a clean end of stream.
pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
    let mut prefix = [0; 4];
    match from.read_exact(&mut prefix) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    // A bad length ends the session at once; nothing more may come.
    decode_length(prefix)?;
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&prefix);
    from.read_exact(&mut head[4..])?;
    let (kind, seq, length) = decode_head(head)?;
    let mut payload = vec![0; length];
    from.read_exact(&mut payload)?;
    Ok(Some(Frame { kind, seq, payload }))
}

/// Writes one encoded frame to a blocking stream.
pub fn write(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    to.write_all(frame)?;
    to.flush()
}

/// First request of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    /// PostgreSQL database; sessions of one database and one `lake` share a DuckDB instance.
    pub database: String,
    /// Backend process id, for logs.
    pub pid: i32,
    pub lake: Lake,
}

/// Where the lake is and how to get in. Two different values never share an engine instance,
/// so a corrected credential takes effect with the next session.
#[derive(Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Lake {
    /// Warehouse name as the catalog knows it.
    pub warehouse: String,
    /// Base URI of the Iceberg REST catalog, without `/v1`; empty = none configured.
    pub catalog_uri: String,
    pub catalog_auth: CatalogAuth,
    /// None: the catalog vends credentials or the store needs none.
    pub storage: Option<Storage>,
}

/// How the catalog is asked.
#[derive(Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum CatalogAuth {
    #[default]
    None,
    /// OAuth2 client credentials.
    OAuth2 {
        client_id: String,
        client_secret: String,
        token_url: Option<String>,
        scope: Option<String>,
    },
    Bearer {
        token: String,
    },
}

/// Object store credentials.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Storage {
    S3 {
        key: String,
        secret: String,
        /// `scheme://host:port`, `host:port`, or none for the provider's own.
        endpoint: Option<String>,
        region: String,
        /// `path` or `vhost`
        url_style: String,
        use_ssl: bool,
    },
    Azure {
        connection_string: String,
    },
    /// The catalog hands out credentials with each table (`s3`, `azure`, `gcs`).
    Vended {
        kind: String,
    },
}

impl Lake {
    /// Every secret value in here, for [`crate::redact::mask`].
    pub fn secrets(&self) -> Vec<String> {
        let mut out = Vec::new();
        match &self.catalog_auth {
            CatalogAuth::None => {}
            CatalogAuth::OAuth2 { client_secret, .. } => out.push(client_secret.clone()),
            CatalogAuth::Bearer { token } => out.push(token.clone()),
        }
        match &self.storage {
            Some(Storage::S3 { secret, .. }) => out.push(secret.clone()),
            Some(Storage::Azure { connection_string }) => out.push(connection_string.clone()),
            Some(Storage::Vended { .. }) | None => {}
        }
        out
    }
}

impl std::fmt::Debug for Lake {
    /// Names the place, never a credential.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lake")
            .field("warehouse", &self.warehouse)
            .field("catalog_uri", &self.catalog_uri)
            .finish_non_exhaustive()
    }
}

/// Answer to [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    pub version: u32,
    /// `coldfront-engine` version, for logs.
    pub engine: String,
}

/// Which DuckDB transaction a statement runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// A read transaction named by the client. All queries with one number see one state of each table;
    /// it lives until released or until the transaction ends.
    Read(u64),
    /// The session's write transaction, begun by its first use.
    Write,
}

/// Opens a result stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// Chosen by the client, unique among its open streams.
    pub stream: u32,
    pub scope: Scope,
    pub sql: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortcut: Option<Shortcut>,
    /// Read snapshots that are no longer needed.
    #[serde(default)]
    pub release: Vec<u64>,
}

/// A cheaper statement for the same rows, where a condition of the data allows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortcut {
    /// If this query has no row, `sql` is run in place of the query's own; both in the same transaction.
    pub unless: String,
    pub sql: String,
}

/// Names an open stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamId {
    pub stream: u32,
}

/// Runs a statement to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    pub scope: Scope,
    /// May read `coldfront_input(N)` for inputs of this session.
    pub sql: String,
    /// The input that the statement reads while it arrives. Inputs that were completed before need no naming.
    pub input: Option<u64>,
}

/// Asks for the size of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    pub namespace: String,
    pub table: String,
    /// Ask the catalog now; otherwise an answer that is some seconds old will do.
    #[serde(default)]
    pub fresh: bool,
    /// Tell whether the table has this snapshot; needs `fresh`.
    #[serde(default)]
    pub has: Option<i64>,
}

/// Size of a table's current snapshot, from its summary; zeros for an empty table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableStats {
    pub rows: u64,
    pub bytes: u64,
    pub files: u64,
    /// Id of the current snapshot; none for an empty table.
    #[serde(default)]
    pub snapshot: Option<i64>,
    /// Whether the table has the snapshot that was asked for.
    #[serde(default)]
    pub has: bool,
}

/// What a finished stream delivered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub rows: u64,
    /// Bytes of Arrow sent to the client.
    pub bytes: u64,
    /// Data files the scan opened, where the engine knows.
    pub files: Option<u64>,
    /// The query's shortcut was run.
    #[serde(default)]
    pub shortcut: bool,
}

/// Outcome of a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Rows changed, as DuckDB counts them; zero for statements that change none.
    pub rows: u64,
}

/// Why a request failed. Never holds a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub sqlstate: String,
    /// Names what is at fault: the catalog, the object store, the spill directory, …
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(
            encode_json(Kind::Fetch, 7, &StreamId { stream: 3 }),
            b"\x11\x00\x00\x00\x04\x07\x00\x00\x00{\"stream\":3}"
        );
        assert_eq!(
            encode(Kind::InputEnd, 258, &[&9u64.to_le_bytes()]),
            b"\x0d\x00\x00\x00\x09\x02\x01\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00"
        );
    }

    #[test]
    fn frames_round_trip() {
        let bytes = encode(Kind::Batch, u32::MAX, &[b"ab", b"", b"c"]);
        let frame = read(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!(frame, Frame { kind: Kind::Batch, seq: u32::MAX, payload: b"abc".to_vec() });
        assert!(read(&mut [].as_slice()).unwrap().is_none());
    }

    #[test]
    fn bad_lengths_and_kinds_are_refused() {
        for length in [4u32, u32::MAX] {
            let mut head = [0; HEAD_BYTES];
            head[..4].copy_from_slice(&length.to_le_bytes());
            head[4] = Kind::Fetch as u8;
            assert!(decode_head(head).is_err());
        }
        assert!(read(&mut b"\x05\x00\x00\x00\xff\x00\x00\x00\x00".as_slice()).is_err());
        assert!(read(&mut b"\x09\x00\x00\x00\x04\x00".as_slice()).is_err());
    }

    #[test]
    fn debug_output_shows_no_credential() {
        let lake = Lake {
            warehouse: "wh".into(),
            catalog_auth: CatalogAuth::Bearer { token: "hunter22".into() },
            ..Lake::default()
        };
        assert!(!format!("{lake:?}").contains("hunter22"));
        assert_eq!(lake.secrets(), ["hunter22"]);
    }
}
