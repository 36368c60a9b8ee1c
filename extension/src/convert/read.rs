//! Arrow columns to datums.
//!
//! By-reference datums point into memory owned by the [`Column`], or into the batch's memory context where
//! PostgreSQL's own input functions make them; both live until the batch is dropped.

#![allow(unsafe_code)]

use arrow_array::{Array, ArrayRef, cast::AsArray, types};
use coldfront_common::{numeric, sqlstate, types::ColumnType};
use pgrx::pg_sys::{self, Datum};

use super::{EPOCH_DAYS, EPOCH_MICROS};
use crate::{
    error::{Error, Result},
    pg::io,
};

/// Largest value PostgreSQL reads from a varlena, in bytes (`MaxAllocSize`).
const VALUE_MAX_BYTES: usize = 0x3fff_ffff;

/// The datums of one column of a batch.
pub struct Column {
    pub datums: Vec<Datum>,
    /// Empty when there are no NULLs.
    pub nulls: Vec<bool>,
    /// Memory behind by-reference datums; eight-byte words for their alignment.
    _arena: Vec<u64>,
}

impl Column {
    /// An empty column with room for as many rows; its values live elsewhere.
    pub fn like(&self) -> Self {
        Self {
            datums: Vec::with_capacity(self.datums.len()),
            nulls: Vec::with_capacity(self.datums.len()),
            _arena: Vec::new(),
        }
    }

    pub fn push(&mut self, datum: Datum) {
        self.datums.push(datum);
        self.nulls.push(false);
    }

    pub fn push_null(&mut self) {
        self.datums.push(Datum::null());
        self.nulls.push(true);
    }
}

/// Converts a column. By-reference values that need an input function are made in the current memory context.
pub fn column(array: &ArrayRef, ty: ColumnType, typmod: i32, name: &str) -> Result<Column> {
    if array.data_type() != &ty.arrow_type() && !same_layout(array, ty) {
        return Err(Error::Refused {
            sqlstate: sqlstate::PROTOCOL_VIOLATION,
            message: format!(
                "coldfront: column \"{name}\" arrived as {} where {} was due",
                array.data_type(),
                ty.arrow_type()
            ),
            detail: None,
            hint: Some("Another program may have changed the Iceberg table's schema.".into()),
        });
    }
    let mut arena = Arena::default();
    let n = array.len();
    let nulls: Vec<bool> = match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => nulls.iter().map(|valid| !valid).collect(),
        _ => Vec::new(),
    };
    let is_null = |i: usize| nulls.get(i).copied().unwrap_or(false);
    let datums: Vec<Datum> = match ty {
        ColumnType::Bool => {
            let values = array.as_boolean().values();
            (0..n).map(|i| Datum::from(values.value(i))).collect()
        }
        ColumnType::Int2 => {
            let values = array.as_primitive::<types::Int32Type>().values();
            let mut out = Vec::with_capacity(n);
            for (i, value) in values.iter().enumerate() {
                out.push(match i16::try_from(*value) {
                    Ok(value) => Datum::from(value),
                    Err(_) if is_null(i) => Datum::null(),
                    Err(_) => return Err(out_of_range(name, "smallint")),
                });
            }
            out
        }
        ColumnType::Int4 => array.as_primitive::<types::Int32Type>().values().iter().map(|v| Datum::from(*v)).collect(),
        ColumnType::Int8 => array.as_primitive::<types::Int64Type>().values().iter().map(|v| Datum::from(*v)).collect(),
        ColumnType::Float4 => {
            array.as_primitive::<types::Float32Type>().values().iter().map(|v| Datum::from(v.to_bits())).collect()
        }
        ColumnType::Float8 => {
            array.as_primitive::<types::Float64Type>().values().iter().map(|v| Datum::from(v.to_bits())).collect()
        }
        ColumnType::Date => {
            let values = array.as_primitive::<types::Date32Type>().values();
            values.iter().map(|days| Datum::from(date(*days))).collect()
        }
        ColumnType::Time => {
            array.as_primitive::<types::Time64MicrosecondType>().values().iter().map(|v| Datum::from(*v)).collect()
        }
        ColumnType::Timestamp | ColumnType::Timestamptz => {
            let values = array.as_primitive::<types::TimestampMicrosecondType>().values();
            values.iter().map(|micros| Datum::from(timestamp(*micros))).collect()
        }
        ColumnType::Numeric { scale, .. } => {
            let values = array.as_primitive::<types::Decimal128Type>().values();
            let mut body = Vec::with_capacity(32);
            let offsets = values.iter().map(|unscaled| {
                body.clear();
                numeric::encode(*unscaled, scale as u8, &mut body);
                arena.varlena(&body)
            });
            offsets.collect::<Vec<_>>().into_iter().map(|at| arena.datum(at)).collect()
        }
        ColumnType::Text | ColumnType::Json => {
            let strings = array.as_string::<i32>();
            refuse_nul(strings.value_data(), name)?;
            let offsets: Vec<usize> = (0..n).map(|i| arena.varlena(strings.value(i).as_bytes())).collect();
            offsets.into_iter().map(|at| arena.datum(at)).collect()
        }
        ColumnType::Bytea => {
            let values = array.as_binary::<i32>();
            let offsets: Vec<usize> = (0..n).map(|i| arena.varlena(values.value(i))).collect();
            offsets.into_iter().map(|at| arena.datum(at)).collect()
        }
        ColumnType::Bpchar => {
            let strings = array.as_string::<i32>();
            refuse_nul(strings.value_data(), name)?;
            let width = usize::try_from(typmod - pg_sys::VARHDRSZ as i32).unwrap_or(0);
            let mut padded = Vec::new();
            let offsets: Vec<usize> = (0..n)
                .map(|i| {
                    let value = strings.value(i);
                    padded.clear();
                    padded.extend_from_slice(value.as_bytes());
                    padded.resize(value.len() + width.saturating_sub(value.chars().count()), b' ');
                    arena.varlena(&padded)
                })
                .collect();
            offsets.into_iter().map(|at| arena.datum(at)).collect()
        }
        ColumnType::Uuid => {
            let strings = array.as_string::<i32>();
            let mut offsets = Vec::with_capacity(n);
            for i in 0..n {
                let bytes = if is_null(i) {
                    [0; 16]
                } else {
                    uuid(strings.value(i)).ok_or_else(|| out_of_range(name, "uuid"))?
                };
                offsets.push(arena.raw(&bytes));
            }
            offsets.into_iter().map(|at| arena.datum(at)).collect()
        }
        ColumnType::Jsonb | ColumnType::Interval => {
            let strings = array.as_string::<i32>();
            refuse_nul(strings.value_data(), name)?;
            let input = if ty == ColumnType::Jsonb { io::jsonb_from_text } else { io::interval_from_text };
            (0..n).map(|i| if is_null(i) { Datum::null() } else { input(strings.value(i), typmod) }).collect()
        }
        ColumnType::Float4Array => {
            let lists = array.as_list::<i32>();
            (0..n)
                .map(|i| {
                    if is_null(i) {
                        return Datum::null();
                    }
                    let elements = lists.value(i);
                    let floats = elements.as_primitive::<types::Float32Type>();
                    io::real_array((0..floats.len()).map(|k| (!floats.is_null(k)).then(|| floats.value(k))))
                })
                .collect()
        }
    };
    Ok(Column { datums, nulls, _arena: arena.words })
}

/// Engine and map may differ in names inside nested or zoned types, not in layout.
fn same_layout(array: &ArrayRef, ty: ColumnType) -> bool {
    use arrow_schema::{DataType, TimeUnit};
    match (array.data_type(), ty) {
        (DataType::Timestamp(TimeUnit::Microsecond, zone), ColumnType::Timestamp) => zone.is_none(),
        (DataType::Timestamp(TimeUnit::Microsecond, zone), ColumnType::Timestamptz) => zone.is_some(),
        (DataType::Decimal128(_, scale), ColumnType::Numeric { scale: want, .. }) => *scale == want,
        (DataType::List(item), ColumnType::Float4Array) => item.data_type() == &DataType::Float32,
        _ => false,
    }
}

/// Unix days to PostgreSQL's; the engine's infinities are `i32::MAX` and its negation.
fn date(days: i32) -> i32 {
    match days {
        i32::MAX => i32::MAX,
        days if days <= -i32::MAX => i32::MIN,
        days => days - EPOCH_DAYS,
    }
}

/// Unix microseconds to PostgreSQL's; the engine's infinities are `i64::MAX` and its negation.
fn timestamp(micros: i64) -> i64 {
    match micros {
        i64::MAX => i64::MAX,
        micros if micros <= -i64::MAX => i64::MIN,
        micros => micros.saturating_sub(EPOCH_MICROS),
    }
}

/// Parses the canonical 36-character form.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut out = [0u8; 16];
    let mut digits = text.bytes().filter(|b| *b != b'-');
    for byte in &mut out {
        let high = (digits.next()? as char).to_digit(16)?;
        let low = (digits.next()? as char).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    digits.next().is_none().then_some(out)
}

/// PostgreSQL text cannot hold U+0000, which other writers of the lake may have stored.
fn refuse_nul(bytes: &[u8], name: &str) -> Result<()> {
    if bytes.contains(&0) {
        return Err(Error::Refused {
            sqlstate: "22021",
            message: format!(
                "coldfront: a value of column \"{name}\" holds the character U+0000, which PostgreSQL text cannot store"
            ),
            detail: None,
            hint: Some("Another program wrote it; correct the row there, or leave the column out of the query.".into()),
        });
    }
    Ok(())
}

fn out_of_range(name: &str, type_name: &str) -> Error {
    Error::value(
        sqlstate::NUMERIC_OUT_OF_RANGE,
        format!("coldfront: a stored value of column \"{name}\" is out of range for type {type_name}"),
    )
}

/// Bytes of by-reference values, aligned to eight.
#[derive(Default)]
struct Arena {
    words: Vec<u64>,
}

impl Arena {
    /// Appends a varlena with a four-byte header; returns its word offset.
    fn varlena(&mut self, body: &[u8]) -> usize {
        let at = self.words.len();
        let length = body.len() + 4;
        assert!(length <= VALUE_MAX_BYTES, "value of {} bytes is too long for PostgreSQL", body.len());
        self.words.resize(at + length.div_ceil(8), 0);
        let header = if cfg!(target_endian = "little") { (length as u32) << 2 } else { length as u32 };
        // SAFETY: the words from `at` on hold at least `length` bytes, and bytes have no alignment.
        unsafe {
            let start = self.words.as_mut_ptr().add(at).cast::<u8>();
            std::ptr::copy_nonoverlapping(header.to_ne_bytes().as_ptr(), start, 4);
            std::ptr::copy_nonoverlapping(body.as_ptr(), start.add(4), body.len());
        }
        at
    }

    /// Appends bytes without a header; returns their word offset.
    fn raw(&mut self, bytes: &[u8; 16]) -> usize {
        let at = self.words.len();
        let (low, high) = bytes.split_at(8);
        for half in [low, high] {
            self.words.push(u64::from_ne_bytes(half.try_into().expect("a half is eight bytes")));
        }
        at
    }

    /// Datum of what was appended at `at`. Only valid after the last append: the memory moves while it grows.
    fn datum(&self, at: usize) -> Datum {
        Datum::from(self.words[at..].as_ptr().cast::<u8>().cast_mut())
    }
}
