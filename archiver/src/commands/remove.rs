//! `remove`: forgets a lifecycle. A tiered table stays one; nothing moves any more.

use crate::cli::Remove;
use crate::error::{Error, Result};
use crate::lifecycle::{self, Table};
use crate::settings::Settings;

pub async fn run(args: &Remove, settings: &Settings) -> Result<()> {
    let table = Table::parse(&args.table.table)?;
    match super::write(&[lifecycle::delete(&table)], &format!("removing {table}"), &args.print, settings).await? {
        Some(0) => Err(Error::Usage(format!("{table} is not registered"))),
        Some(_) => {
            println!("removed {table}; its rows stay where they are");
            Ok(())
        }
        None => Ok(()),
    }
}
