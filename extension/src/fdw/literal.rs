//! Values as engine SQL literals.

#![allow(unsafe_code)]

use coldfront_common::{numeric, quote, types::ColumnType};
use pgrx::pg_sys::Datum;

use crate::{
    convert::{EPOCH_DAYS, EPOCH_MICROS},
    pg::io,
};

// The lake holds no infinities, and the engine cannot look for one in a table that is partitioned by time, so they are
// sent as moments beyond all that it holds. PostgreSQL's dates and times begin 4714 BC.
const DAYS_BEFORE_ALL: i64 = -3_000_000;
const DAYS_AFTER_ALL: i64 = i32::MAX as i64 - 1;
const MICROS_BEFORE_ALL: i64 = -300_000_000_000_000_000;
const MICROS_AFTER_ALL: i64 = i64::MAX - 1;

/// Renders a value so that the engine sees exactly the value PostgreSQL has; `None` where it cannot.
///
/// # Safety
/// `datum` is a valid, non-null value of the PostgreSQL type that `ty` stands for.
pub unsafe fn render(ty: ColumnType, datum: Datum) -> Option<String> {
    // SAFETY: the caller's promise, arm by arm.
    unsafe {
        Some(match ty {
            ColumnType::Bool => if datum.value() & 0xff != 0 { "TRUE" } else { "FALSE" }.to_owned(),
            ColumnType::Int2 => integer(i64::from(datum.value() as i16)),
            ColumnType::Int4 => integer(i64::from(datum.value() as i32)),
            ColumnType::Int8 => integer(datum.value() as i64),
            ColumnType::Float4 => {
                let value = f32::from_bits(datum.value() as u32);
                (!value.is_nan()).then(|| format!("CAST({} AS FLOAT)", quote::literal(&format!("{value:e}"))))?
            }
            ColumnType::Float8 => {
                let value = f64::from_bits(datum.value() as u64);
                (!value.is_nan()).then(|| format!("CAST({} AS DOUBLE)", quote::literal(&format!("{value:e}"))))?
            }
            ColumnType::Numeric { precision, scale } => {
                let value = io::with_varlena(datum, |body| numeric::decode(body, scale as u8)).ok()?;
                format!(
                    "CAST({} AS DECIMAL({precision},{scale}))",
                    quote::literal(&numeric::to_text(value, scale as u8))
                )
            }
            ColumnType::Text => io::with_text(datum, quote::literal),
            ColumnType::Bpchar => io::with_text(datum, |text| quote::literal(text.trim_end_matches(' '))),
            ColumnType::Uuid => {
                let hex: String = io::uuid_bytes(datum).iter().map(|byte| format!("{byte:02x}")).collect();
                format!("CAST({} AS UUID)", quote::literal(&hex))
            }
            ColumnType::Bytea => io::with_varlena(datum, quote::blob),
            ColumnType::Date => {
                let days = match datum.value() as i32 {
                    i32::MAX => DAYS_AFTER_ALL,
                    i32::MIN => DAYS_BEFORE_ALL,
                    days => i64::from(days) + i64::from(EPOCH_DAYS),
                };
                format!("(DATE '1970-01-01' + ({days}))")
            }
            ColumnType::Timestamp => timestamp(datum.value() as i64, "make_timestamp"),
            ColumnType::Timestamptz => timestamp(datum.value() as i64, "make_timestamptz"),
            ColumnType::Time
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Interval
            | ColumnType::Float4Array => return None,
        })
    }
}

fn integer(value: i64) -> String {
    if value < 0 { format!("({value})") } else { value.to_string() }
}

/// A moment after the last one the lake can hold compares like infinity.
fn timestamp(micros: i64, function: &str) -> String {
    let unix = match micros {
        i64::MIN => MICROS_BEFORE_ALL,
        i64::MAX => MICROS_AFTER_ALL,
        micros => micros.checked_add(EPOCH_MICROS).unwrap_or(MICROS_AFTER_ALL),
    };
    format!("{function}(CAST({unix} AS BIGINT))")
}
