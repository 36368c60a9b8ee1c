//! The hash of a row, by which the copy of a partition in Iceberg is compared with the heap: of all values as one stream, so
//! that rows with the same values in other combinations differ. A value counts as the lake stores it.

#![allow(unsafe_code)]

use std::hash::{DefaultHasher, Hasher};

use coldfront_common::{sqlstate, turns::Turns, types::ColumnType};
use pgrx::{PgMemoryContexts, pg_guard, pg_sys, pg_sys::Datum};

use crate::{
    error::{Error, OrRaise, Result},
    pg::{compat, io},
};

/// Rows after which others may have the processor.
const ROWS_AT_ONCE: u32 = 64;

/// Calling convention of the function, which PostgreSQL asks for by this name.
#[unsafe(no_mangle)]
pub extern "C" fn pg_finfo_coldfront_row_hash() -> &'static pg_sys::Pg_finfo_record {
    &super::VERSION_1
}

/// `coldfront._row_hash(record)`, which is strict. Records of any type have no safe form in the SQL layer.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn coldfront_row_hash(info: pg_sys::FunctionCallInfo) -> Datum {
    // SAFETY: PostgreSQL passes one record that is not NULL, and the caller's state, which nobody else touches; what is
    // kept in it lives in its memory context.
    unsafe {
        let row = pg_sys::pg_detoast_datum((*info).args.as_slice(1)[0].value.cast_mut_ptr());
        let row = row.cast::<pg_sys::HeapTupleHeaderData>();
        let function = (*info).flinfo;
        let is_known = (*function).fn_extra.cast::<Rows>().as_ref().is_some_and(|rows| rows.is_of(row));
        if !is_known {
            let rows = Rows::describe(row, (*function).fn_mcxt).or_raise();
            (*function).fn_extra = PgMemoryContexts::For((*function).fn_mcxt).leak_and_drop_on_delete(rows).cast();
        }
        let rows = &mut *(*function).fn_extra.cast::<Rows>();
        Datum::from(rows.hash(row) as i64)
    }
}

/// Rows of one type.
struct Rows {
    descriptor: pg_sys::TupleDesc,
    type_id: pg_sys::Oid,
    typmod: i32,
    columns: Vec<ColumnType>,
    values: Vec<Datum>,
    nulls: Vec<bool>,
    turns: Turns,
    hashed: u32,
}

impl Rows {
    /// # Safety
    /// `row` is a record; the memory context outlives this.
    unsafe fn describe(row: *const pg_sys::HeapTupleHeaderData, memory: pg_sys::MemoryContext) -> Result<Self> {
        // SAFETY: a record names its type, of which the copy lives in `memory`; attributes are those of the descriptor.
        unsafe {
            let (type_id, typmod) = type_of(row);
            let before = pg_sys::MemoryContextSwitchTo(memory);
            let descriptor = pg_sys::lookup_rowtype_tupdesc_copy(type_id, typmod);
            pg_sys::MemoryContextSwitchTo(before);
            let mut columns = Vec::new();
            for at in 0..(*descriptor).natts {
                let attribute = compat::attribute(descriptor, at);
                let ty = ColumnType::from_postgres((*attribute).atttypid.to_u32(), (*attribute).atttypmod);
                columns.push(ty.map_err(|why| {
                    let message = format!("coldfront: value {} of a row cannot be hashed: {why}", at + 1);
                    Error::refused(sqlstate::FEATURE_NOT_SUPPORTED, message, why.hint())
                })?);
            }
            let (values, nulls) = (vec![Datum::null(); columns.len()], vec![true; columns.len()]);
            Ok(Self { descriptor, type_id, typmod, columns, values, nulls, turns: Turns::begin(), hashed: 0 })
        }
    }

    /// # Safety
    /// `row` is a record.
    unsafe fn is_of(&self, row: *const pg_sys::HeapTupleHeaderData) -> bool {
        // SAFETY: the caller's promise.
        (self.type_id, self.typmod) == unsafe { type_of(row) }
    }

    /// # Safety
    /// `row` is a record of the described type.
    unsafe fn hash(&mut self, row: *mut pg_sys::HeapTupleHeaderData) -> u64 {
        self.hashed = self.hashed.wrapping_add(1);
        if self.hashed.is_multiple_of(ROWS_AT_ONCE) {
            self.turns.offer();
        }
        let mut hasher = DefaultHasher::new();
        // SAFETY: the tuple has the descriptor's columns, as many as there is room for; each value has its column's type.
        unsafe {
            let mut tuple = pg_sys::HeapTupleData {
                t_len: pgrx::varlena::varsize_any(row.cast()) as u32,
                t_data: row,
                ..Default::default()
            };
            let (values, nulls) = (self.values.as_mut_ptr(), self.nulls.as_mut_ptr());
            pg_sys::heap_deform_tuple(&raw mut tuple, self.descriptor, values, nulls);
            for ((ty, value), is_null) in self.columns.iter().zip(&self.values).zip(&self.nulls) {
                hasher.write_u8(u8::from(*is_null));
                if !is_null {
                    add(&mut hasher, *value, *ty);
                }
            }
        }
        hasher.finish()
    }
}

/// # Safety
/// `row` is a record.
unsafe fn type_of(row: *const pg_sys::HeapTupleHeaderData) -> (pg_sys::Oid, i32) {
    // SAFETY: a tuple that is a datum has these fields.
    unsafe { ((*row).t_choice.t_datum.datum_typeid, (*row).t_choice.t_datum.datum_typmod) }
}

/// Adds a value, so that no two sequences of values make the same stream.
///
/// # Safety
/// `value` is a valid value of the type.
unsafe fn add(hasher: &mut DefaultHasher, value: Datum, ty: ColumnType) {
    let mut bytes = |bytes: &[u8]| {
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    // SAFETY: the caller's promise; each arm reads what the type is stored as.
    unsafe {
        match ty {
            ColumnType::Bool => hasher.write_u8(u8::from(value.value() & 0xff != 0)),
            ColumnType::Int2 => hasher.write_i64(i64::from(value.value() as i16)),
            ColumnType::Int4 | ColumnType::Date => hasher.write_i64(i64::from(value.value() as i32)),
            ColumnType::Int8 | ColumnType::Time | ColumnType::Timestamp | ColumnType::Timestamptz => {
                hasher.write_i64(value.value() as i64);
            }
            ColumnType::Float4 => hasher.write_u32(real(f32::from_bits(value.value() as u32))),
            ColumnType::Float8 => hasher.write_u64(double(f64::from_bits(value.value() as u64))),
            ColumnType::Numeric { scale, .. } => {
                let number = io::with_varlena(value, |body| coldfront_common::numeric::decode(body, scale as u8));
                // What is no decimal of this scale cannot be stored either.
                match number {
                    Ok(number) => hasher.write_i128(number),
                    Err(_) => io::with_varlena(value, bytes),
                }
            }
            ColumnType::Text | ColumnType::Json | ColumnType::Bytea => io::with_varlena(value, bytes),
            ColumnType::Bpchar => io::with_text(value, |text| bytes(text.trim_end_matches(' ').as_bytes())),
            ColumnType::Jsonb => bytes(io::jsonb_to_text(value).as_bytes()),
            ColumnType::Interval => bytes(io::interval_to_text(value).as_bytes()),
            ColumnType::Uuid => bytes(&io::uuid_bytes(value)),
            ColumnType::Float4Array => match io::real_elements(value) {
                Some(elements) => {
                    hasher.write_usize(elements.len());
                    for element in elements {
                        hasher.write_u8(u8::from(element.is_none()));
                        hasher.write_u32(element.map_or(0, real));
                    }
                }
                None => bytes(io::output(value, pg_sys::FLOAT4ARRAYOID).as_bytes()),
            },
        }
    }
}

/// Bits of a value, of which the lake keeps neither the sign of zero nor the kind of NaN.
fn real(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// As [`real`].
fn double(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}
