//! `export`: all lifecycles as YAML, for `import`, or as SQL.

use serde::{Deserialize, Serialize};

use crate::cli::{Export, Format};
use crate::db;
use crate::error::{Error, Result};
use crate::lifecycle::Lifecycle;
use crate::settings::Settings;

/// The file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub tables: Vec<Lifecycle>,
}

pub async fn run(args: &Export, settings: &Settings) -> Result<()> {
    let mut connection = db::connect(settings).await?;
    let tables = Lifecycle::all(&mut connection).await?;
    match args.format {
        Format::Sql => tables.iter().for_each(|lifecycle| println!("{}", lifecycle.upsert())),
        Format::Yaml => {
            let text = serde_saphyr::to_string(&Document { tables }).map_err(|e| Error::Write(Box::new(e)))?;
            print!("{text}");
        }
    }
    Ok(())
}
