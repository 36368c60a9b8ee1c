//! `list`: all lifecycles.

use crate::db;
use crate::error::Result;
use crate::lifecycle::Lifecycle;
use crate::settings::Settings;

pub async fn run(settings: &Settings) -> Result<()> {
    let mut connection = db::connect(settings).await?;
    let rows: Vec<Vec<String>> = Lifecycle::all(&mut connection)
        .await?
        .into_iter()
        .map(|l| {
            let name = l.name().to_string();
            let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
            vec![
                name,
                l.period,
                or_dash(l.hot_period),
                or_dash(l.retention_period),
                l.premake.to_string(),
                l.id_scheme.map_or(l.part_mode, |scheme| format!("id ({scheme})")),
                l.expiration,
                if l.enabled { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    super::print_table(&["table", "period", "hot", "retention", "premake", "mode", "expiration", "enabled"], &rows);
    Ok(())
}
