//! Encodes manifests and manifest lists. The crate's writers want files, so they get files in memory.

use bytes::Bytes;
use iceberg::io::FileIO;
use iceberg::spec::{
    DataFile, ManifestContentType, ManifestEntry, ManifestFile, ManifestListWriter, ManifestWriterBuilder,
    PartitionSpec, SchemaRef,
};

use crate::error::{LakeError, Result};

const IN_MEMORY: &str = "memory:/file";

/// What becomes of a file in a manifest.
pub enum Entry {
    /// A new file; with a data sequence number of its own, or the commit's.
    Added {
        file: DataFile,
        sequence: Option<i64>,
    },
    Existing(ManifestEntry),
    Deleted(ManifestEntry),
}

/// A manifest of `snapshot` at `path`.
pub async fn manifest(
    path: &str,
    snapshot: i64,
    content: ManifestContentType,
    schema: SchemaRef,
    spec: PartitionSpec,
    entries: Vec<Entry>,
) -> Result<(Bytes, ManifestFile)> {
    let what = || LakeError::metadata(format!("a new manifest, {path}"));
    let io = FileIO::new_with_memory();
    let output = io.new_output(IN_MEMORY).map_err(what())?;
    let builder = ManifestWriterBuilder::new(output, Some(snapshot), schema, spec);
    let mut writer = match content {
        ManifestContentType::Data => builder.build_v2_data(),
        ManifestContentType::Deletes => builder.build_v2_deletes(),
    };
    for entry in entries {
        match entry {
            Entry::Added { file, sequence } => writer.add_file(file, sequence.unwrap_or(-1)),
            Entry::Existing(e) => {
                let (by, sequence) = (e.snapshot_id.unwrap_or_default(), e.sequence_number.unwrap_or_default());
                writer.add_existing_file(e.data_file, by, sequence, e.file_sequence_number)
            }
            Entry::Deleted(e) => {
                writer.add_delete_file(e.data_file, e.sequence_number.unwrap_or_default(), e.file_sequence_number)
            }
        }
        .map_err(what())?;
    }
    let mut file = writer.write_manifest_file().await.map_err(what())?;
    let bytes = io.new_input(IN_MEMORY).map_err(what())?.read().await.map_err(what())?;
    file.manifest_path = path.to_owned();
    Ok((bytes, file))
}

/// The manifest list of a snapshot. Manifests of this snapshot get its sequence number.
pub async fn manifest_list(
    path: &str,
    snapshot: i64,
    parent: Option<i64>,
    sequence: i64,
    manifests: Vec<ManifestFile>,
) -> Result<Bytes> {
    let what = || LakeError::metadata(format!("a new manifest list, {path}"));
    let io = FileIO::new_with_memory();
    let output = io.new_output(IN_MEMORY).map_err(what())?;
    let file = output.writer().await.map_err(what())?;
    let mut writer = ManifestListWriter::v2(file, snapshot, parent, sequence);
    writer.add_manifests(manifests.into_iter()).map_err(what())?;
    writer.close().await.map_err(what())?;
    io.new_input(IN_MEMORY).map_err(what())?.read().await.map_err(what())
}
