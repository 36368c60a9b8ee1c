//! The Iceberg table behind a relation, for what the archiver does to it without the engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use coldfront_common::frame::Storage;
use coldfront_common::ident::TableRef;
use coldfront_lake::LakeError;
use coldfront_lake::catalog::{Catalog, Loaded, TableId};
use coldfront_lake::commit::{self, Change, head_manifests};
use coldfront_lake::read::Reader;
use coldfront_lake::store::Stores;
use coldfront_program::claim::Claim;
use coldfront_program::lake;
use iceberg::spec::{DataContentType, DataFile, ManifestContentType, ManifestFile, Operation, PrimitiveLiteral};

use crate::db::During;
use crate::error::{Error, Result};
use crate::pass::table::Work;

/// Writers that know nothing of the claim may come in between a commit this often.
pub const COMMIT_TRIES: usize = 20;

pub struct Cold {
    /// As the registry calls it.
    pub reference: String,
    pub table: TableId,
    pub catalog: Catalog,
    pub reader: Reader,
    pub head: Loaded,
    pub key_column: String,
}

/// Keys from `lower` on and below `upper`, as Iceberg stores them: days, microseconds or plain numbers.
#[derive(Debug, Clone, Copy)]
pub struct Keys {
    pub lower: Option<i64>,
    pub upper: Option<i64>,
}

impl Cold {
    pub async fn open(work: &mut Work<'_>) -> Result<Self> {
        let lake = lake::read(&mut work.connection).await?;
        let (reference, key_column): (String, String) = sqlx::query_as(
            "SELECT v.iceberg_table, k.key_column::text FROM coldfront.tiered_views AS v, \
             coldfront._range_key(coldfront._hot_table(v.schema_name, v.table_name)) AS k \
             WHERE v.schema_name = $1 AND v.table_name = $2",
        )
        .bind(&work.table.schema)
        .bind(&work.table.name)
        .fetch_one(&mut work.connection)
        .await
        .during("reading the registry")?;
        let name = TableRef::parse(&reference).map_err(|error| Error::Registry(format!("{}: {error}", work.table)))?;
        let table = TableId::new(&name.namespace, &name.name);
        let catalog = Catalog::new(&lake)?;
        let head = catalog.load(&table, matches!(lake.storage, Some(Storage::Vended { .. }))).await?;
        let reader = Reader::new(Arc::new(Stores::new(&lake, head.config.clone())), Arc::default());
        Ok(Self { reference, table, catalog, reader, head, key_column })
    }

    async fn remove_files(&self, work: &mut Work<'_>, keys: Keys) -> Result<u64> {
        let Some(id) = self.head.metadata.current_schema().field_id_by_name(&self.key_column) else { return Ok(0) };
        // Mostly there is nothing, and nobody need wait for that; otherwise the manifests are at hand afterwards.
        if self.files_in(&self.head, keys, id).await?.paths.is_empty() {
            return Ok(0);
        }
        let mut claim = Claim::take(&mut work.connection, &work.table.to_string(), &self.reference).await?;
        for attempt in 1.. {
            let head = self.catalog.load(&self.table, false).await?;
            let Found { manifests, touched, paths: removed, rows } = self.files_in(&head, keys, id).await?;
            if removed.is_empty() {
                break;
            }
            let change = Change {
                operation: Operation::Delete,
                added: Vec::new(),
                sequence: None,
                removed,
                totals: None,
                notes: HashMap::from([("coldfront.task".to_owned(), "expire".to_owned())]),
            };
            let is_touched = |m: &ManifestFile| touched.contains(&m.manifest_path);
            let prepared = commit::build(&self.reader, &self.table, &head, &manifests, is_touched, change).await?;
            if let Err(lost) = claim.assert_held().await {
                prepared.discard(&self.reader).await;
                return Err(lost.into());
            }
            match prepared.apply(&self.catalog, &self.table, &self.reader).await {
                Ok(_) => {
                    claim.release().await?;
                    return Ok(rows);
                }
                Err(LakeError::Conflict { .. }) if attempt < COMMIT_TRIES => {
                    tracing::info!(table = %self.table, "the head moved; committing again")
                }
                Err(error) => return Err(error.into()),
            }
        }
        claim.release().await?;
        Ok(0)
    }

    async fn files_in(&self, head: &Loaded, keys: Keys, id: i32) -> Result<Found> {
        let manifests = head_manifests(&self.reader, &head.metadata).await?;
        let (mut paths, mut touched, mut rows) = (HashSet::new(), HashSet::new(), 0);
        for manifest in manifests.iter().filter(|m| m.content == ManifestContentType::Data) {
            for entry in self.reader.manifest(manifest).await?.entries.iter().filter(|entry| entry.is_alive()) {
                if keys.hold(&entry.data_file, id) {
                    rows += entry.data_file.record_count();
                    paths.insert(entry.data_file.file_path().to_owned());
                    touched.insert(manifest.manifest_path.clone());
                }
            }
        }
        Ok(Found { manifests, touched, paths, rows })
    }
}

/// Removes the data files whose keys all lie in a range, by a commit that reads none of them; rows of other files stay. A
/// range without an upper end is left to statements: its keys are no numbers. Returns how many rows the files had.
pub async fn remove_files(work: &mut Work<'_>, keys: Keys) -> Result<i64> {
    if keys.upper.is_none() {
        return Ok(0);
    }
    let rows = Cold::open(work).await?.remove_files(work, keys).await?;
    Ok(i64::try_from(rows).unwrap_or(i64::MAX))
}

/// Files of a snapshot whose keys lie in a range.
struct Found {
    /// All of the snapshot.
    manifests: Vec<ManifestFile>,
    /// Paths of those that hold the files.
    touched: HashSet<String>,
    paths: HashSet<String>,
    rows: u64,
}

impl Keys {
    /// Whether every row of a file has its key in here, by the bounds in its manifest. They are exact for numbers and times.
    fn hold(self, file: &DataFile, id: i32) -> bool {
        let number = |bounds: &HashMap<i32, iceberg::spec::Datum>| match bounds.get(&id)?.literal() {
            PrimitiveLiteral::Int(value) => Some(i64::from(*value)),
            PrimitiveLiteral::Long(value) => Some(*value),
            _ => None,
        };
        let (Some(low), Some(high)) = (number(file.lower_bounds()), number(file.upper_bounds())) else { return false };
        file.content_type() == DataContentType::Data
            // A file that does not tell may have rows without a key, which are in no range.
            && file.null_value_counts().get(&id) == Some(&0)
            && self.lower.is_none_or(|lower| lower <= low)
            && self.upper.is_none_or(|upper| high < upper)
    }
}
