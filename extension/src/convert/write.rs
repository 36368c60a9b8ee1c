//! Datums to Arrow columns, row by row.
//!
//! A value the lake cannot hold is refused with a class 22 SQLSTATE; none is ever changed.

#![allow(unsafe_code)]

use std::sync::Arc;

use arrow_array::{ArrayRef, builder as b};
use coldfront_common::{numeric, sqlstate, types::ColumnType};
use pgrx::pg_sys::Datum;

use super::{EPOCH_DAYS, EPOCH_MICROS};
use crate::{
    error::{Error, Result},
    pg::io,
};

/// Microseconds of a day; Iceberg times are below it.
const DAY_MICROS: i64 = 86_400_000_000;

/// Builds one column of a batch.
pub struct Column {
    ty: ColumnType,
    /// For messages.
    name: String,
    builder: Builder,
}

enum Builder {
    Bool(b::BooleanBuilder),
    Int32(b::Int32Builder),
    Int64(b::Int64Builder),
    Float32(b::Float32Builder),
    Float64(b::Float64Builder),
    Decimal(b::Decimal128Builder),
    Utf8(b::StringBuilder),
    Binary(b::BinaryBuilder),
    Date(b::Date32Builder),
    Time(b::Time64MicrosecondBuilder),
    Timestamp(b::TimestampMicrosecondBuilder),
    Floats(b::ListBuilder<b::Float32Builder>),
}

impl Column {
    pub fn new(ty: ColumnType, name: impl Into<String>) -> Self {
        let builder = match ty {
            ColumnType::Bool => Builder::Bool(Default::default()),
            ColumnType::Int2 | ColumnType::Int4 => Builder::Int32(Default::default()),
            ColumnType::Int8 => Builder::Int64(Default::default()),
            ColumnType::Float4 => Builder::Float32(Default::default()),
            ColumnType::Float8 => Builder::Float64(Default::default()),
            ColumnType::Numeric { .. } => Builder::Decimal(b::Decimal128Builder::new().with_data_type(ty.arrow_type())),
            ColumnType::Text
            | ColumnType::Bpchar
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Interval
            | ColumnType::Uuid => Builder::Utf8(Default::default()),
            ColumnType::Bytea => Builder::Binary(Default::default()),
            ColumnType::Date => Builder::Date(Default::default()),
            ColumnType::Time => Builder::Time(Default::default()),
            ColumnType::Timestamp | ColumnType::Timestamptz => {
                Builder::Timestamp(b::TimestampMicrosecondBuilder::new().with_data_type(ty.arrow_type()))
            }
            ColumnType::Float4Array => {
                let arrow_schema::DataType::List(item) = ty.arrow_type() else {
                    unreachable!("a list by the type map")
                };
                Builder::Floats(b::ListBuilder::new(b::Float32Builder::new()).with_field(item))
            }
        };
        Self { ty, name: name.into(), builder }
    }

    /// Appends one value and returns about how many bytes it takes.
    ///
    /// # Safety
    /// Unless `null`, `datum` is a valid value of the column's PostgreSQL type.
    pub unsafe fn append(&mut self, datum: Datum, null: bool) -> Result<usize> {
        if null {
            self.append_null();
            return Ok(1);
        }
        let name = &self.name;
        // SAFETY: the caller promises the datum's type, which is what each arm reads.
        unsafe {
            match (&mut self.builder, self.ty) {
                (Builder::Bool(c), _) => c.append_value(datum.value() & 0xff != 0),
                (Builder::Int32(c), ColumnType::Int2) => c.append_value(i32::from(datum.value() as i16)),
                (Builder::Int32(c), _) => c.append_value(datum.value() as i32),
                (Builder::Int64(c), _) => c.append_value(datum.value() as i64),
                (Builder::Float32(c), _) => c.append_value(f32::from_bits(datum.value() as u32) + 0.0),
                // Adding zero makes a negative zero positive. They are equal, but the engine's Parquet writer puts both under
                // one dictionary entry, and its Bloom filter then hides one of them.
                (Builder::Float64(c), _) => c.append_value(f64::from_bits(datum.value() as u64) + 0.0),
                (Builder::Decimal(c), ColumnType::Numeric { precision, scale }) => {
                    let value = io::with_varlena(datum, |body| numeric::decode(body, scale as u8));
                    let value = value.map_err(|e| not_decimal(&e, name))?;
                    if value.unsigned_abs() >= 10u128.pow(u32::from(precision)) {
                        return Err(not_decimal(&numeric::NotDecimal::TooWide, name));
                    }
                    c.append_value(value);
                }
                (Builder::Date(c), _) => {
                    let days = datum.value() as i32;
                    if days == i32::MAX || days == i32::MIN {
                        return Err(infinite(name, "date"));
                    }
                    c.append_value(days.checked_add(EPOCH_DAYS).ok_or_else(|| out_of_range(name, "date"))?);
                }
                (Builder::Time(c), _) => {
                    let micros = datum.value() as i64;
                    if micros >= DAY_MICROS {
                        let message = format!("coldfront: time 24:00:00 cannot be stored in column \"{name}\"");
                        return Err(Error::refused(
                            sqlstate::DATETIME_OVERFLOW,
                            message,
                            "Iceberg times end at 23:59:59.999999.",
                        ));
                    }
                    c.append_value(micros);
                }
                (Builder::Timestamp(c), _) => {
                    let micros = datum.value() as i64;
                    if micros == i64::MAX || micros == i64::MIN {
                        return Err(infinite(name, "timestamp"));
                    }
                    c.append_value(micros.checked_add(EPOCH_MICROS).ok_or_else(|| out_of_range(name, "timestamp"))?);
                }
                (Builder::Binary(c), _) => {
                    return Ok(io::with_varlena(datum, |bytes| {
                        c.append_value(bytes);
                        bytes.len()
                    }));
                }
                (Builder::Floats(c), _) => {
                    let elements = io::real_elements(datum).ok_or_else(|| dimensions(name))?;
                    let n = elements.len();
                    c.append_value(elements.into_iter().map(|e| e.map(|v| v + 0.0)));
                    return Ok(4 * n);
                }
                (Builder::Utf8(c), ColumnType::Uuid) => c.append_value(uuid_text(&io::uuid_bytes(datum))),
                (Builder::Utf8(c), ColumnType::Jsonb) => return Ok(append_text(c, &io::jsonb_to_text(datum))),
                (Builder::Utf8(c), ColumnType::Interval) => return Ok(append_text(c, &io::interval_to_text(datum))),
                (Builder::Utf8(c), ColumnType::Bpchar) => {
                    return Ok(io::with_text(datum, |text| append_text(c, text.trim_end_matches(' '))));
                }
                (Builder::Utf8(c), _) => return Ok(io::with_text(datum, |text| append_text(c, text))),
                (Builder::Decimal(_), _) => unreachable!("a decimal builder belongs to a numeric column"),
            }
        }
        Ok(16)
    }

    fn append_null(&mut self) {
        match &mut self.builder {
            Builder::Bool(c) => c.append_null(),
            Builder::Int32(c) => c.append_null(),
            Builder::Int64(c) => c.append_null(),
            Builder::Float32(c) => c.append_null(),
            Builder::Float64(c) => c.append_null(),
            Builder::Decimal(c) => c.append_null(),
            Builder::Utf8(c) => c.append_null(),
            Builder::Binary(c) => c.append_null(),
            Builder::Date(c) => c.append_null(),
            Builder::Time(c) => c.append_null(),
            Builder::Timestamp(c) => c.append_null(),
            Builder::Floats(c) => c.append_null(),
        }
    }

    /// Takes what was appended and starts over.
    pub fn finish(&mut self) -> ArrayRef {
        match &mut self.builder {
            Builder::Bool(c) => Arc::new(c.finish()),
            Builder::Int32(c) => Arc::new(c.finish()),
            Builder::Int64(c) => Arc::new(c.finish()),
            Builder::Float32(c) => Arc::new(c.finish()),
            Builder::Float64(c) => Arc::new(c.finish()),
            Builder::Decimal(c) => Arc::new(c.finish()),
            Builder::Utf8(c) => Arc::new(c.finish()),
            Builder::Binary(c) => Arc::new(c.finish()),
            Builder::Date(c) => Arc::new(c.finish()),
            Builder::Time(c) => Arc::new(c.finish()),
            Builder::Timestamp(c) => Arc::new(c.finish()),
            Builder::Floats(c) => Arc::new(c.finish()),
        }
    }
}

fn append_text(column: &mut b::StringBuilder, text: &str) -> usize {
    column.append_value(text);
    text.len() + 4
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        for half in [byte >> 4, byte & 15] {
            out.push(char::from(DIGITS[usize::from(half)]));
        }
    }
    out
}

fn infinite(name: &str, kind: &str) -> Error {
    let message = format!("coldfront: an infinite {kind} cannot be stored in column \"{name}\"");
    Error::refused(sqlstate::DATETIME_OVERFLOW, message, "Iceberg has no infinities; use NULL or a far date.")
}

fn out_of_range(name: &str, kind: &str) -> Error {
    Error::value(
        sqlstate::DATETIME_OVERFLOW,
        format!("coldfront: {kind} out of the lake's range for column \"{name}\""),
    )
}

fn not_decimal(why: &numeric::NotDecimal, name: &str) -> Error {
    let what = match why {
        numeric::NotDecimal::NaN => "NaN",
        numeric::NotDecimal::Infinity => "an infinite numeric",
        numeric::NotDecimal::TooWide | numeric::NotDecimal::Inexact => "a numeric beyond the declared precision",
    };
    Error::refused(
        sqlstate::NUMERIC_OUT_OF_RANGE,
        format!("coldfront: {what} cannot be stored in column \"{name}\""),
        "Iceberg decimals are finite and bounded; use NULL or double precision.",
    )
}

fn dimensions(name: &str) -> Error {
    Error::refused(
        "2202E",
        format!("coldfront: column \"{name}\" takes arrays of one dimension with lower bound 1"),
        "Iceberg lists have one dimension.",
    )
}
