//! The write claim of a table, held by a transaction for the length of a catalog commit.

use sqlx::postgres::Postgres;
use sqlx::{Connection, PgConnection, Transaction};

use crate::database::{DatabaseError, During};

/// A held claim. Dropping it gives it back.
pub struct Claim<'a> {
    transaction: Transaction<'a, Postgres>,
    what: String,
}

impl<'a> Claim<'a> {
    /// Waits for its turn among the writers of `relation`, whose Iceberg table the registry calls `reference`.
    pub async fn take(
        connection: &'a mut PgConnection,
        relation: &str,
        reference: &str,
    ) -> Result<Self, DatabaseError> {
        let what = format!("claiming {relation} for a commit");
        let mut transaction = connection.begin().await.during(&what)?;
        sqlx::query("SELECT coldfront._claim_iceberg_external($1)")
            .bind(reference)
            .execute(&mut *transaction)
            .await
            .during(&what)?;
        Ok(Self { transaction, what })
    }

    /// Fails if the claim is lost: with the connection ends the transaction, and with it the claim.
    pub async fn assert_held(&mut self) -> Result<(), DatabaseError> {
        sqlx::query("SELECT 1").execute(&mut *self.transaction).await.during(&self.what).map(drop)
    }

    /// Gives it back.
    pub async fn release(self) -> Result<(), DatabaseError> {
        self.transaction.commit().await.during("releasing a claim")
    }
}
