//! `set`: changes a lifecycle.

use crate::cli::Set;
use crate::error::{Error, Result};
use crate::lifecycle::{self, Table};
use crate::settings::Settings;

pub async fn run(args: &Set, settings: &Settings) -> Result<()> {
    let table = Table::parse(&args.table.table)?;
    let statement = lifecycle::update(&table, &args.lifecycle)
        .ok_or_else(|| Error::Usage("nothing to set: give at least one of the lifecycle options".to_owned()))?;
    match super::write(&[statement], &format!("changing {table}"), &args.print, settings).await? {
        Some(0) => Err(Error::Usage(format!("{table} is not registered"))),
        Some(_) => {
            println!("changed {table}");
            Ok(())
        }
        None => Ok(()),
    }
}
