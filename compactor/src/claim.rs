//! The locks that keep compactors off each other's tables, and the orphan task off what an export has staged.

use sqlx::PgConnection;

use crate::db::{During, Relation};
use crate::error::{Error, Result};

/// One compactor per table, on whatever machine: a lock that ends with the connection.
pub async fn work_on(connection: &mut PgConnection, relation: &Relation) -> Result<()> {
    let taken: bool =
        sqlx::query_scalar("SELECT pg_try_advisory_lock(hashtextextended('coldfront_compactor:' || $1, 0))")
            .bind(&relation.reference)
            .fetch_one(connection)
            .await
            .during(format!("locking {relation} against other compactors"))?;
    if taken { Ok(()) } else { Err(Error::Busy(relation.to_string())) }
}

pub async fn done_with(connection: &mut PgConnection, relation: &Relation) -> Result<()> {
    sqlx::query("SELECT pg_advisory_unlock(hashtextextended('coldfront_compactor:' || $1, 0))")
        .bind(&relation.reference)
        .execute(connection)
        .await
        .during(format!("unlocking {relation}"))?;
    Ok(())
}

/// Keeps exports of the table from beginning until the connection ends; false if one is under way. What an export has
/// staged belongs to nothing until its commit, and may be old by then.
pub async fn keep_exports_off(connection: &mut PgConnection, relation: &Relation) -> Result<bool> {
    let taken = sqlx::query_scalar("SELECT pg_try_advisory_lock(coldfront._staging_key($1))")
        .bind(&relation.reference)
        .fetch_one(connection)
        .await
        .during(format!("looking for exports of {relation}"))?;
    Ok(taken)
}
