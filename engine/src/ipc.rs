//! Record batches as Arrow IPC messages, the form in which they travel and are spilled.

use arrow_array::RecordBatch;
use arrow_ipc::writer::{CompressionContext, DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow_schema::{ArrowError, SchemaRef};

/// Encodes batches of one schema.
pub struct Encoder {
    schema: SchemaRef,
    generator: IpcDataGenerator,
    options: IpcWriteOptions,
    dictionaries: DictionaryTracker,
    compression: CompressionContext,
}

impl Encoder {
    pub fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            generator: IpcDataGenerator::default(),
            options: IpcWriteOptions::default(),
            dictionaries: DictionaryTracker::new(false),
            compression: Default::default(),
        }
    }

    /// The schema message.
    pub fn schema(&mut self) -> Result<Vec<u8>, ArrowError> {
        let data = self.generator.schema_to_bytes_with_dictionary_tracker(
            &self.schema,
            &mut self.dictionaries,
            &self.options,
        );
        self.message(data)
    }

    /// The message of one batch.
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let (dictionaries, data) =
            self.generator.encode(batch, &mut self.dictionaries, &self.options, &mut self.compression)?;
        if !dictionaries.is_empty() {
            return Err(ArrowError::NotYetImplemented("columns of an ENUM type: cast them to VARCHAR".into()));
        }
        self.message(data)
    }

    fn message(&self, data: EncodedData) -> Result<Vec<u8>, ArrowError> {
        let mut out = Vec::with_capacity(data.ipc_message.len() + data.arrow_data.len() + 64);
        write_message(&mut out, data, &self.options)?;
        Ok(out)
    }
}
