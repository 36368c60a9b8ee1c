//! `status`: measures all tables, and shows how they are.

use std::sync::Arc;

use crate::cli::PolicyArgs;
use crate::compact::State;
use crate::error::Result;
use crate::policy::Policy;
use crate::run::Session;
use crate::settings::Settings;
use crate::state::{self, Measured};
use crate::work::Work;

const HEADER: [&str; 9] =
    ["table", "files", "small", "delete files", "deleted rows", "manifests", "snapshots", "bytes", "reclaimable"];

pub async fn run(settings: &Settings) -> Result<()> {
    let mut session = Session::open(settings).await?;
    let mut rows = vec![HEADER.map(str::to_owned)];
    for relation in session.relations().await? {
        let (catalog, locations) = (Arc::clone(&session.catalog), Arc::clone(&session.locations));
        let cache = Arc::clone(&session.cache);
        let work = Work::begin(&relation, settings, &session.lake, catalog, locations, cache, true).await?;
        let (head, args) = (work.load().await?, PolicyArgs::default());
        let policy = Policy::new(&args, &relation.configured, &head.metadata)?;
        let seen = State::load(&work, &policy, head).await?;
        let measured = state::record(&mut session.connection, &work, seen, &args).await?;
        rows.push(row(relation.to_string(), &measured));
    }
    print(&rows);
    Ok(())
}

fn row(table: String, m: &Measured) -> [String; 9] {
    let numbers = [
        m.files,
        m.small_files,
        m.delete_files,
        m.deleted_rows,
        m.manifests,
        m.snapshots,
        m.bytes,
        m.bytes_reclaimable,
    ];
    let [a, b, c, d, e, f, g, h] = numbers.map(|number| number.to_string());
    [table, a, b, c, d, e, f, g, h]
}

fn print(rows: &[[String; 9]]) {
    let widths: Vec<usize> = (0..9).map(|at| rows.iter().map(|r| r[at].chars().count()).max().unwrap_or(0)).collect();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(at, (cell, width))| if at == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") })
            .collect();
        println!("{}", cells.join("  ").trim_end());
    }
}
