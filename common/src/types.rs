//! The one map between PostgreSQL, DuckDB, Iceberg and Arrow types.
//!
//! A column keeps its exact PostgreSQL type in the foreign table; this module says what the lake stores for it
//! and what travels in an Arrow batch. A type that is not in [`ColumnType`] is refused when a table is created.
//! The rule for each entry: every value PostgreSQL can hold comes back equal, or its write is refused.

use arrow_schema::{DataType, Field, TimeUnit};
use serde::{Deserialize, Serialize};

/// A PostgreSQL column type that the lake can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ColumnType {
    Bool,
    /// Iceberg has no 16-bit integer; stored as 32-bit.
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// `numeric(precision, scale)` with 1 ≤ precision ≤ 38 and 0 ≤ scale ≤ precision.
    Numeric {
        precision: u8,
        scale: i8,
    },
    /// `text` and `varchar(n)`; PostgreSQL enforces the length.
    Text,
    /// `char(n)`, stored without its padding.
    Bpchar,
    /// `json`, stored as its text.
    Json,
    /// `jsonb`, stored as its text.
    Jsonb,
    /// Stored as its text, so that months, days and microseconds stay apart.
    Interval,
    Uuid,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    /// One-dimensional `real[]`, also for `vector(n)` and `halfvec(n)`.
    Float4Array,
}

/// Object identifiers of `pg_type`, as fixed in PostgreSQL's `pg_type.dat`.
pub mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const JSON: u32 = 114;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const FLOAT4_ARRAY: u32 = 1021;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
}

/// Why a PostgreSQL type cannot be a column of the lake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedType {
    #[error("numeric needs a precision and a scale, because Iceberg decimals are bounded")]
    UnboundedNumeric,
    #[error("Iceberg decimals have at most 38 digits")]
    NumericTooWide,
    #[error("Iceberg decimals need a scale between 0 and the precision")]
    NumericScale,
    #[error("this type has no exact counterpart in Iceberg")]
    NoCounterpart,
}

impl UnsupportedType {
    /// What the user can do instead.
    pub fn hint(self) -> &'static str {
        match self {
            Self::UnboundedNumeric => "Declare it as numeric(p, s) with p at most 38.",
            Self::NumericTooWide => "Use numeric(p, s) with p at most 38, or text.",
            Self::NumericScale => "Use numeric(p, s) with 0 <= s <= p.",
            Self::NoCounterpart => "Use one of the supported types; inet, cidr and enums fit text, oid fits bigint.",
        }
    }
}

impl ColumnType {
    /// Maps a type OID and its type modifier (−1 for none).
    pub fn from_postgres(type_oid: u32, typmod: i32) -> Result<Self, UnsupportedType> {
        Ok(match type_oid {
            oid::BOOL => Self::Bool,
            oid::INT2 => Self::Int2,
            oid::INT4 => Self::Int4,
            oid::INT8 => Self::Int8,
            oid::FLOAT4 => Self::Float4,
            oid::FLOAT8 => Self::Float8,
            oid::NUMERIC => return Self::numeric(typmod),
            oid::TEXT | oid::VARCHAR => Self::Text,
            oid::BPCHAR => Self::Bpchar,
            oid::JSON => Self::Json,
            oid::JSONB => Self::Jsonb,
            oid::INTERVAL => Self::Interval,
            oid::UUID => Self::Uuid,
            oid::BYTEA => Self::Bytea,
            oid::DATE => Self::Date,
            oid::TIME => Self::Time,
            oid::TIMESTAMP => Self::Timestamp,
            oid::TIMESTAMPTZ => Self::Timestamptz,
            oid::FLOAT4_ARRAY => Self::Float4Array,
            _ => return Err(UnsupportedType::NoCounterpart),
        })
    }

    /// Decodes a numeric type modifier: precision in the high half, an 11-bit signed scale in the low one,
    /// 4 bytes added (PostgreSQL `numeric.c`, `make_numeric_typmod`).
    fn numeric(typmod: i32) -> Result<Self, UnsupportedType> {
        if typmod < 4 {
            return Err(UnsupportedType::UnboundedNumeric);
        }
        let packed = typmod - 4;
        let precision = (packed >> 16) & 0xffff;
        let scale = ((packed & 0x7ff) ^ 1024) - 1024;
        match (u8::try_from(precision), i8::try_from(scale)) {
            (Ok(precision), Ok(scale)) if precision <= 38 && (0..=precision as i8).contains(&scale) => {
                Ok(Self::Numeric { precision, scale })
            }
            _ if precision > 38 => Err(UnsupportedType::NumericTooWide),
            _ => Err(UnsupportedType::NumericScale),
        }
    }

    /// The type in an engine `CREATE TABLE`, which fixes the Iceberg type.
    pub fn storage_type(self) -> String {
        match self {
            Self::Bool => "BOOLEAN".into(),
            Self::Int2 | Self::Int4 => "INTEGER".into(),
            Self::Int8 => "BIGINT".into(),
            Self::Float4 => "FLOAT".into(),
            Self::Float8 => "DOUBLE".into(),
            Self::Numeric { precision, scale } => format!("DECIMAL({precision},{scale})"),
            Self::Text | Self::Bpchar | Self::Json | Self::Jsonb | Self::Interval => "VARCHAR".into(),
            Self::Uuid => "UUID".into(),
            Self::Bytea => "BLOB".into(),
            Self::Date => "DATE".into(),
            Self::Time => "TIME".into(),
            Self::Timestamp => "TIMESTAMP".into(),
            Self::Timestamptz => "TIMESTAMPTZ".into(),
            Self::Float4Array => "FLOAT[]".into(),
        }
    }

    /// The Arrow type in which a value travels between backend and engine.
    pub fn arrow_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int2 | Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Float4 => DataType::Float32,
            Self::Float8 => DataType::Float64,
            Self::Numeric { precision, scale } => DataType::Decimal128(precision, scale),
            Self::Text | Self::Bpchar | Self::Json | Self::Jsonb | Self::Interval | Self::Uuid => DataType::Utf8,
            Self::Bytea => DataType::Binary,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Float4Array => DataType::List(Field::new("l", DataType::Float32, true).into()),
        }
    }

    /// Wraps an engine expression of the arrow type so that it has the storage type.
    pub fn from_wire(self, expression: &str) -> String {
        match self {
            Self::Uuid => format!("CAST({expression} AS UUID)"),
            _ => expression.to_owned(),
        }
    }

    /// Wraps an engine expression of the storage type so that it travels as the arrow type.
    pub fn to_wire(self, expression: &str) -> String {
        match self {
            Self::Uuid => format!("CAST({expression} AS VARCHAR)"),
            _ => expression.to_owned(),
        }
    }

    /// Whether a time transform (`year`, `month`, `day`) of Iceberg partitioning applies.
    pub fn takes_time_transform(self) -> bool {
        matches!(self, Self::Date | Self::Timestamp | Self::Timestamptz)
    }

    /// Whether the `hour` transform applies.
    pub fn takes_hour_transform(self) -> bool {
        matches!(self, Self::Timestamp | Self::Timestamptz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typmod(precision: i32, scale: i32) -> i32 {
        ((precision << 16) | (scale & 0x7ff)) + 4
    }

    #[test]
    fn every_supported_type_has_one_storage_type() {
        for (type_oid, modifier, storage) in [
            (oid::BOOL, -1, "BOOLEAN"),
            (oid::INT2, -1, "INTEGER"),
            (oid::INT4, -1, "INTEGER"),
            (oid::INT8, -1, "BIGINT"),
            (oid::FLOAT4, -1, "FLOAT"),
            (oid::FLOAT8, -1, "DOUBLE"),
            (oid::NUMERIC, typmod(12, 4), "DECIMAL(12,4)"),
            (oid::NUMERIC, typmod(38, 38), "DECIMAL(38,38)"),
            (oid::TEXT, -1, "VARCHAR"),
            (oid::VARCHAR, 14, "VARCHAR"),
            (oid::BPCHAR, 9, "VARCHAR"),
            (oid::JSON, -1, "VARCHAR"),
            (oid::JSONB, -1, "VARCHAR"),
            (oid::INTERVAL, -1, "VARCHAR"),
            (oid::UUID, -1, "UUID"),
            (oid::BYTEA, -1, "BLOB"),
            (oid::DATE, -1, "DATE"),
            (oid::TIME, -1, "TIME"),
            (oid::TIMESTAMP, -1, "TIMESTAMP"),
            (oid::TIMESTAMPTZ, -1, "TIMESTAMPTZ"),
            (oid::FLOAT4_ARRAY, -1, "FLOAT[]"),
        ] {
            assert_eq!(ColumnType::from_postgres(type_oid, modifier).unwrap().storage_type(), storage);
        }
    }

    #[test]
    fn unsupported_types_say_why() {
        for (type_oid, modifier, reason) in [
            (oid::NUMERIC, -1, UnsupportedType::UnboundedNumeric),
            (oid::NUMERIC, typmod(39, 0), UnsupportedType::NumericTooWide),
            (oid::NUMERIC, typmod(1000, 2), UnsupportedType::NumericTooWide),
            (oid::NUMERIC, typmod(3, -2), UnsupportedType::NumericScale),
            (oid::NUMERIC, typmod(3, 5), UnsupportedType::NumericScale),
            (869, -1, UnsupportedType::NoCounterpart),
            (26, -1, UnsupportedType::NoCounterpart),
            (1266, -1, UnsupportedType::NoCounterpart),
        ] {
            assert_eq!(ColumnType::from_postgres(type_oid, modifier), Err(reason));
        }
    }
}
