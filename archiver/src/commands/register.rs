//! `register`: a table comes under management.

use crate::cli::{Period, Register};
use crate::error::{Error, Result};
use crate::lifecycle::{self, Table};
use crate::settings::Settings;

pub async fn run(args: &Register, settings: &Settings) -> Result<()> {
    let table = Table::parse(&args.table.table)?;
    let mut lifecycle = args.lifecycle.clone();
    lifecycle.period.get_or_insert(Period::Monthly);
    let statement = lifecycle::insert(&table, &lifecycle);
    let outcome = super::write(&[statement], &format!("registering {table}"), &args.print, settings).await;
    if outcome.as_ref().err().and_then(Error::sqlstate).as_deref() == Some("23505") {
        return Err(Error::Usage(format!("{table} is registered already: change it with `set`")));
    }
    if outcome?.is_some() {
        println!("registered {table}");
    }
    Ok(())
}
