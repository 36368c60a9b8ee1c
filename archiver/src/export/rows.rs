//! Reads the rows of one query as Arrow batches, in the transaction of an exported snapshot.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use coldfront_common::quote::literal;
use coldfront_lake::InArrow;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use super::{Export, NO_TIMEOUTS, WHAT};
use crate::db::{self, During};
use crate::error::{Error, Result};

/// Bytes of a batch.
const BATCH_BYTES: i32 = 2 * 1024 * 1024;
/// Batches that wait to be written.
const AHEAD: usize = 1;
/// What the server may use to sort a piece.
const SORT_MEMORY: &str = "64MB";

/// Rows, or the end of a piece.
pub enum Read {
    Batch {
        rows: RecordBatch,
        bytes: usize,
    },
    EndOfPiece,
    /// Of all pieces.
    End,
}

/// A reader in the background, which ends with this.
pub struct Reading {
    rows: Receiver<Result<Read>>,
    task: JoinHandle<()>,
}

impl Reading {
    /// What comes next. A reader that is gone without having come to the end has failed.
    pub async fn next(&mut self) -> Result<Read> {
        self.rows
            .recv()
            .await
            .unwrap_or_else(|| Err(Error::Protocol("the reader of a partition ended early".to_owned())))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads pieces in the background until there is none left.
pub fn pieces(export: &Arc<Export>) -> Reading {
    let (sender, rows) = channel(AHEAD);
    let export = Arc::clone(export);
    let task = tokio::spawn(async move {
        let last = read_all(&export, &sender).await.map(|()| Read::End);
        // Nobody waits for it any more if the writer failed first.
        let _ = sender.send(last).await;
    });
    Reading { rows, task }
}

async fn read_all(export: &Export, sender: &Sender<Result<Read>>) -> Result<()> {
    let mut connection = db::connect(&export.settings).await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut transaction = connection.begin_with(begin).await.during(WHAT)?;
    let snapshot = format!("SET TRANSACTION SNAPSHOT {}", literal(&export.snapshot));
    sqlx::raw_sql(AssertSqlSafe(snapshot)).execute(&mut *transaction).await.during(WHAT)?;
    sqlx::query("SELECT coldfront._attempt_join($1)")
        .bind(export.attempt)
        .execute(&mut *transaction)
        .await
        .during(WHAT)?;
    sqlx::query(NO_TIMEOUTS).execute(&mut *transaction).await.during(WHAT)?;
    sqlx::query("SELECT set_config('work_mem', $1, true)")
        .bind(SORT_MEMORY)
        .execute(&mut *transaction)
        .await
        .during(WHAT)?;
    while let Some(query) = export.next_piece() {
        if !read(&mut transaction, &query, sender).await? {
            return Ok(());
        }
    }
    transaction.rollback().await.during(WHAT)?;
    Ok(())
}

/// Reads one piece; false if nobody wants the rest.
async fn read(connection: &mut PgConnection, query: &str, sender: &Sender<Result<Read>>) -> Result<bool> {
    let declare = format!("DECLARE piece NO SCROLL CURSOR FOR {query}");
    sqlx::raw_sql(AssertSqlSafe(declare)).execute(&mut *connection).await.during(WHAT)?;
    loop {
        let next: Option<Vec<u8>> = sqlx::query_scalar("SELECT coldfront._fetch_arrow('piece', $1)")
            .bind(BATCH_BYTES)
            .fetch_one(&mut *connection)
            .await
            .during(WHAT)?;
        let Some(message) = next else { break };
        let bytes = message.len();
        let rows = decode(message)?;
        if sender.send(Ok(Read::Batch { rows, bytes })).await.is_err() {
            return Ok(false);
        }
    }
    sqlx::raw_sql("CLOSE piece").execute(connection).await.during(WHAT)?;
    Ok(sender.send(Ok(Read::EndOfPiece)).await.is_ok())
}

/// Decodes a stream with one batch, whose buffers stay where they are.
fn decode(message: Vec<u8>) -> Result<RecordBatch> {
    let mut buffer = Buffer::from_vec(message);
    let batch = StreamDecoder::new().decode(&mut buffer).in_arrow("cannot read the server's rows")?;
    batch.ok_or_else(|| Error::Protocol("the server sent rows without a batch".to_owned()))
}
