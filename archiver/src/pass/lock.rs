//! One archiver per table, on whatever machine: a session-level advisory lock, which ends with the connection.

use sqlx::PgConnection;

use crate::db::During;
use crate::error::Result;
use crate::lifecycle::Table;

/// False if another session has it.
pub async fn take(connection: &mut PgConnection, table: &Table) -> Result<bool> {
    let taken = sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtextextended('coldfront_archiver:' || $1, 0))")
        .bind(table.to_string())
        .fetch_one(connection)
        .await
        .during(format!("locking {table} against other archivers"))?;
    Ok(taken)
}

/// Gives it back at once, rather than when the server notices that the session is over. Where that fails, it is.
pub async fn give_back(connection: &mut PgConnection, table: &Table) {
    let unlock = sqlx::query("SELECT pg_advisory_unlock(hashtextextended('coldfront_archiver:' || $1, 0))");
    if let Err(error) = unlock.bind(table.to_string()).execute(connection).await {
        tracing::debug!(%table, %error, "the lock ends with the session");
    }
}
