//! The write claim of a table, held by a transaction for the length of a catalog commit, and the lock that keeps
//! compactors off each other's tables.

use sqlx::postgres::Postgres;
use sqlx::{Connection, PgConnection, Transaction};

use crate::db::{During, Relation};
use crate::error::{Error, Result};

/// A held claim. Dropping it gives it back.
pub struct Claim<'a> {
    transaction: Transaction<'a, Postgres>,
    what: String,
}

impl<'a> Claim<'a> {
    /// Waits for its turn among the table's writers.
    pub async fn take(connection: &'a mut PgConnection, relation: &Relation) -> Result<Self> {
        let what = format!("claiming {relation} for a commit");
        let mut transaction = connection.begin().await.during(&what)?;
        sqlx::query("SELECT coldfront._claim_iceberg_external($1)")
            .bind(&relation.reference)
            .execute(&mut *transaction)
            .await
            .during(&what)?;
        Ok(Self { transaction, what })
    }

    /// Fails if the claim is lost: with the connection ends the transaction, and with it the claim.
    pub async fn assert_held(&mut self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&mut *self.transaction).await.during(&self.what).map(drop)
    }

    /// Gives it back.
    pub async fn release(self) -> Result<()> {
        self.transaction.commit().await.during("releasing a claim")
    }
}

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
        .during(format!("unlocking {relation}"))
        .map(drop)
}
