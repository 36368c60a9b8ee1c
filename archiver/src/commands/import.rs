//! `import`: lifecycles from a YAML file replace those of the same tables.

use std::io::Read;

use super::export::Document;
use crate::cli::Import;
use crate::error::{Error, Result};
use crate::lifecycle::Lifecycle;
use crate::settings::Settings;

pub async fn run(args: &Import, settings: &Settings) -> Result<()> {
    let path = args.file.display().to_string();
    let read = || {
        if path == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(&args.file)
        }
    };
    let text = read().map_err(|source| Error::Read { path: path.clone(), source })?;
    let document: Document =
        serde_saphyr::from_str(&text).map_err(|e| Error::Parse { path: path.clone(), source: Box::new(e) })?;
    let statements: Vec<String> = document.tables.iter().map(Lifecycle::upsert).collect();
    if let Some(changed) = super::write(&statements, &format!("importing {path}"), &args.print, settings).await? {
        println!("imported {changed} tables");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exported_can_be_imported() {
        let lifecycle = "tables:\n- schema: app\n  table: \"No: 1\"\n  period: monthly\n  hot_period: 3 mons\n";
        let document: Document = serde_saphyr::from_str(lifecycle).unwrap();
        assert_eq!((document.tables[0].premake, document.tables[0].enabled), (4, true));
        let text = serde_saphyr::to_string(&document).unwrap();
        assert_eq!(serde_saphyr::from_str::<Document>(&text).unwrap(), document);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let text = "tables:\n- schema: a\n  table: b\n  period: monthly\n  hot: 3 mons\n";
        assert!(serde_saphyr::from_str::<Document>(text).is_err());
    }
}
