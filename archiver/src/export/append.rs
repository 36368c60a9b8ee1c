//! Adds the files of an export to the Iceberg table, under its write claim.

use std::collections::{HashMap, HashSet};

use coldfront_lake::LakeError;
use coldfront_lake::commit::{self, Change, NewFile, head_manifests};
use iceberg::spec::Operation;
use sqlx::{Postgres, Transaction};

use super::{Export, WHAT};
use crate::cold::{COMMIT_TRIES, Cold};
use crate::db::During;
use crate::error::Result;

/// Commits the files, or removes them. The claim ends with the transaction.
pub async fn commit(export: &Export, transaction: &mut Transaction<'_, Postgres>, files: Vec<NewFile>) -> Result<()> {
    let mut in_doubt = false;
    let outcome = try_commit(export, transaction, &files, &mut in_doubt).await;
    // Where the catalog did not say no, they may be part of the table.
    if outcome.is_err() && !in_doubt {
        export.remove(&files).await;
    }
    outcome
}

async fn try_commit(
    export: &Export,
    transaction: &mut Transaction<'_, Postgres>,
    files: &[NewFile],
    in_doubt: &mut bool,
) -> Result<()> {
    let Cold { reference, table, catalog, reader, .. } = &export.cold;
    sqlx::query("SELECT coldfront._claim_iceberg_external($1)")
        .bind(reference)
        .execute(&mut **transaction)
        .await
        .during(WHAT)?;
    for attempt in 1.. {
        let head = catalog.load(table, false).await?;
        if head.metadata.current_schema_id() != export.cold.head.metadata.current_schema_id()
            || head.metadata.default_partition_spec_id() != export.cold.head.metadata.default_partition_spec_id()
        {
            return Err(LakeError::Conflict { what: format!("the columns or the partitioning of {table}") }.into());
        }
        let manifests = head_manifests(reader, &head.metadata).await?;
        let change = Change {
            operation: Operation::Append,
            added: files.to_vec(),
            sequence: None,
            removed: HashSet::new(),
            totals: None,
            notes: HashMap::from([("coldfront.task".to_owned(), "archive".to_owned())]),
        };
        let prepared = commit::build(reader, table, &head, &manifests, |_| false, change).await?;
        // With its connection ends the transaction, and with it the claim.
        if let Err(lost) = sqlx::query("SELECT 1").execute(&mut **transaction).await {
            prepared.discard(reader).await;
            return Err(lost).during(WHAT)?;
        }
        match prepared.apply(catalog, table, reader).await {
            Ok(_) => break,
            Err(LakeError::Conflict { .. }) if attempt < COMMIT_TRIES => {
                tracing::info!(%table, "the head moved; committing again")
            }
            Err(error) => {
                *in_doubt = !error.is_refusal();
                return Err(error.into());
            }
        }
    }
    Ok(())
}
