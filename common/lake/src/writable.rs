//! Whether this version can write snapshots of a table; refusals name the reason.

use iceberg::spec::{FormatVersion, TableMetadata};

use crate::error::{LakeError, Result};

pub fn check(what: &str, metadata: &TableMetadata) -> Result<()> {
    match metadata.format_version() {
        FormatVersion::V2 => {}
        FormatVersion::V1 => {
            return Err(LakeError::Refused(format!(
                "{what} has format version 1, whose snapshots are not rewritten: set its property format-version to 2"
            )));
        }
        FormatVersion::V3 => {
            return Err(LakeError::Refused(format!(
                "{what} has format version 3 (deletion vectors, row lineage), whose files are not rewritten: \
                 compact it with an engine that writes format version 3"
            )));
        }
    }
    if metadata.encryption_keys_iter().len() > 0 {
        return Err(LakeError::Refused(format!("{what} is encrypted, which is not supported")));
    }
    Ok(())
}

/// Where new metadata files of a table go. Table property `write.metadata.path`.
pub fn metadata_dir(metadata: &TableMetadata) -> String {
    let property = metadata.properties().get("write.metadata.path").cloned();
    property.unwrap_or_else(|| crate::place::join(metadata.location(), "metadata"))
}

/// Where new data files of a table go. Table property `write.data.path`.
pub fn data_dir(metadata: &TableMetadata) -> String {
    let property = metadata.properties().get("write.data.path").cloned();
    property.unwrap_or_else(|| crate::place::join(metadata.location(), "data"))
}
