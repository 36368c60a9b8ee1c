//! Record batches as Arrow IPC messages, the form in which they travel and are spilled.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::root_as_message;
use arrow_ipc::writer::{
    CompressionContext, DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteOptions, write_message,
};
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
        let data =
            self.generator.schema_to_bytes_with_dictionary_tracker(&self.schema, &mut self.dictionaries, &self.options);
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

/// Bytes before a message's metadata: the continuation marker and the metadata's length.
const PREFIX_BYTES: usize = 8;

/// Reads a schema message.
pub fn decode_schema(message: &[u8]) -> Result<SchemaRef, ArrowError> {
    try_schema_from_ipc_buffer(message).map(Arc::new)
}

/// Reads a record batch message of `schema`. The batch shares the message's memory.
pub fn decode_batch(schema: &SchemaRef, message: &Buffer) -> Result<RecordBatch, ArrowError> {
    let broken = |what: &str| ArrowError::IpcError(format!("not a record batch message: {what}"));
    let length = message.get(4..PREFIX_BYTES).ok_or_else(|| broken("too short"))?;
    let length = u32::from_le_bytes([length[0], length[1], length[2], length[3]]) as usize;
    let body_at = PREFIX_BYTES.saturating_add(length);
    let metadata = message.get(PREFIX_BYTES..body_at).ok_or_else(|| broken("its metadata is cut off"))?;
    let parsed = root_as_message(metadata).map_err(|error| broken(&error.to_string()))?;
    let batch = parsed.header_as_record_batch().ok_or_else(|| broken("it is of another kind"))?;
    let body = message.slice(body_at);
    if usize::try_from(parsed.bodyLength()).is_ok_and(|expected| expected > body.len()) {
        return Err(broken("its body is cut off"));
    }
    read_record_batch(&body, batch, schema.clone(), &HashMap::new(), None, &parsed.version())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::StringArray;
    use arrow_schema::{DataType, Field, Schema};

    #[test]
    fn batches_round_trip_and_cut_ones_are_refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true)]));
        let mut encoder = Encoder::new(schema.clone());
        assert_eq!(decode_schema(&encoder.schema().unwrap()).unwrap(), schema);
        for values in [vec![Some("a"), None, Some("ccc")], vec![]] {
            let batch = RecordBatch::try_new(schema.clone(), vec![Arc::new(StringArray::from(values))]).unwrap();
            let message = encoder.batch(&batch).unwrap();
            assert_eq!(decode_batch(&schema, &Buffer::from(message.as_slice())).unwrap(), batch);
            for end in 0..message.len().saturating_sub(64) {
                let _ = decode_batch(&schema, &Buffer::from(&message[..end]));
            }
            assert!(decode_batch(&schema, &Buffer::from(&message[..20])).is_err());
        }
    }
}
