//! PostgreSQL's own input and output of single values.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString};

use pgrx::{
    FromDatum, IntoDatum,
    pg_sys::{self, Datum},
    varlena,
};

/// Interval text must not depend on the session: it is written and read in this style (`INTSTYLE_POSTGRES`).
const STORED_INTERVAL_STYLE: i32 = 0;

/// Sets the interval style for its lifetime and restores it, also by unwinding.
struct StoredIntervalStyle(i32);

impl StoredIntervalStyle {
    fn set() -> Self {
        // SAFETY: IntervalStyle is a plain int of this single-threaded process.
        unsafe {
            let before = pg_sys::IntervalStyle;
            pg_sys::IntervalStyle = STORED_INTERVAL_STYLE;
            Self(before)
        }
    }
}

impl Drop for StoredIntervalStyle {
    fn drop(&mut self) {
        // SAFETY: as in `set`.
        unsafe { pg_sys::IntervalStyle = self.0 }
    }
}

/// Calls `f` with the content of a varlena, detoasted.
///
/// # Safety
/// `datum` points at a valid varlena.
pub unsafe fn with_varlena<T>(datum: Datum, f: impl FnOnce(&[u8]) -> T) -> T {
    // SAFETY: detoasting returns a varlena whose content has the length its header says; a copy is freed after use. What is
    // neither compressed nor elsewhere is read where it is: most values are, and a guarded call costs more than they do.
    unsafe {
        let original = datum.cast_mut_ptr::<pg_sys::varlena>();
        let is_short = varlena::varatt_is_1b(original) && !varlena::varatt_is_1b_e(original);
        let is_plain = is_short || varlena::varatt_is_4b_u(original);
        let plain = if is_plain { original } else { pg_sys::pg_detoast_datum_packed(original) };
        let data = varlena::vardata_any(plain).cast::<u8>();
        let out = f(std::slice::from_raw_parts(data, varlena::varsize_any_exhdr(plain)));
        if plain != original {
            pg_sys::pfree(plain.cast());
        }
        out
    }
}

/// Calls `f` with the content of a text value.
///
/// # Safety
/// `datum` points at a valid text-like varlena in a UTF-8 database, whose server validated it.
pub unsafe fn with_text<T>(datum: Datum, f: impl FnOnce(&str) -> T) -> T {
    // SAFETY: the caller's promise; PostgreSQL only stores valid text of the database encoding.
    unsafe { with_varlena(datum, |bytes| f(std::str::from_utf8_unchecked(bytes))) }
}

/// # Safety
/// `datum` points at a uuid.
pub unsafe fn uuid_bytes(datum: Datum) -> [u8; 16] {
    // SAFETY: a uuid is sixteen bytes.
    unsafe { *datum.cast_mut_ptr::<[u8; 16]>() }
}

/// # Safety
/// `datum` points at a jsonb.
pub unsafe fn jsonb_to_text(datum: Datum) -> String {
    // SAFETY: the output function takes a jsonb and returns a palloc'd C string.
    unsafe { take_cstring(call(pg_sys::jsonb_out, &[Some(datum)])) }
}

/// # Safety
/// `datum` points at an interval.
pub unsafe fn interval_to_text(datum: Datum) -> String {
    let _style = StoredIntervalStyle::set();
    // SAFETY: the output function takes an interval and returns a palloc'd C string.
    unsafe { take_cstring(call(pg_sys::interval_out, &[Some(datum)])) }
}

/// Parses stored jsonb text; raises for text that is not JSON.
pub fn jsonb_from_text(text: &str, _typmod: i32) -> Datum {
    let text = cstring(text);
    // SAFETY: the input function takes a C string.
    unsafe { call(pg_sys::jsonb_in, &[Some(Datum::from(text.as_ptr()))]) }
}

/// Parses stored interval text; raises for text that is not an interval.
pub fn interval_from_text(text: &str, typmod: i32) -> Datum {
    let _style = StoredIntervalStyle::set();
    let text = cstring(text);
    // SAFETY: the input function takes a C string, a type OID it ignores, and a type modifier.
    unsafe {
        let type_oid = Datum::from(pg_sys::INTERVALOID.to_u32());
        call(pg_sys::interval_in, &[Some(Datum::from(text.as_ptr())), Some(type_oid), Some(Datum::from(typmod))])
    }
}

/// Makes a `real[]`.
pub fn real_array(elements: impl Iterator<Item = Option<f32>>) -> Datum {
    elements.collect::<Vec<Option<f32>>>().into_datum().unwrap_or(Datum::null())
}

/// Elements of a `real[]`, unless it has several dimensions or a lower bound other than 1.
///
/// # Safety
/// `datum` points at a `real[]`.
pub unsafe fn real_elements(datum: Datum) -> Option<Vec<Option<f32>>> {
    // SAFETY: a detoasted array has its header in front; with ndim = 1 one dimension and one lower bound follow it.
    unsafe {
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let plain = match (*array).ndim {
            0 => true,
            1 => *array.add(1).cast::<i32>().add(1) == 1,
            _ => false,
        };
        if plain { Vec::<Option<f32>>::from_datum(Datum::from(array), false) } else { None }
    }
}

/// Output of any type by its own output function.
///
/// # Safety
/// `datum` is a valid value of type `type_oid`.
pub unsafe fn output(datum: Datum, type_oid: pg_sys::Oid) -> String {
    // SAFETY: the catalogue names the output function of the type; it returns a palloc'd C string.
    unsafe {
        let mut function = pg_sys::InvalidOid;
        let mut is_varlena = false;
        pg_sys::getTypeOutputInfo(type_oid, &raw mut function, &raw mut is_varlena);
        take_cstring(Datum::from(pg_sys::OidOutputFunctionCall(function, datum)))
    }
}

/// Calls a built-in function that never returns NULL for these arguments.
///
/// # Safety
/// The arguments have the types the function takes.
unsafe fn call(function: unsafe fn(pg_sys::FunctionCallInfo) -> Datum, arguments: &[Option<Datum>]) -> Datum {
    // SAFETY: the caller's promise.
    unsafe { pgrx::direct_function_call_as_datum(function, arguments) }.unwrap_or(Datum::null())
}

/// # Safety
/// `datum` is a palloc'd C string, or null.
unsafe fn take_cstring(datum: Datum) -> String {
    // SAFETY: the caller's promise; the string is copied before it is freed.
    unsafe {
        let pointer = datum.cast_mut_ptr::<std::ffi::c_char>();
        let text = CStr::from_ptr(pointer).to_string_lossy().into_owned();
        pg_sys::pfree(pointer.cast());
        text
    }
}

fn cstring(text: &str) -> CString {
    CString::new(text).expect("values with U+0000 are refused before they get here")
}

/// Elements of an array of any element type.
///
/// # Safety
/// `datum` points at an array.
pub unsafe fn array_elements(datum: Datum) -> Vec<Option<Datum>> {
    // SAFETY: deconstruct_array gets the element type's own properties and fills two palloc'd arrays of `count`.
    unsafe {
        let array = pg_sys::pg_detoast_datum(datum.cast_mut_ptr()).cast::<pg_sys::ArrayType>();
        let (mut length, mut by_value, mut align) = (0i16, false, 0 as std::ffi::c_char);
        pg_sys::get_typlenbyvalalign((*array).elemtype, &raw mut length, &raw mut by_value, &raw mut align);
        let (mut values, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
        pg_sys::deconstruct_array(
            array,
            (*array).elemtype,
            i32::from(length),
            by_value,
            align,
            &raw mut values,
            &raw mut nulls,
            &raw mut count,
        );
        (0..count as usize).map(|i| (!*nulls.add(i)).then(|| *values.add(i))).collect()
    }
}

/// `sum / count` as PostgreSQL's `avg` computes it; NULL where nothing was counted.
pub fn averages(
    sums: crate::convert::read::Column,
    counts: &crate::convert::read::Column,
) -> crate::convert::read::Column {
    let mut out = sums.like();
    for (i, sum) in sums.datums.iter().enumerate() {
        let count = counts.datums[i];
        if count.value() == 0 || sums.nulls.get(i).copied().unwrap_or(false) {
            out.push_null();
            continue;
        }
        // SAFETY: both functions take and return numerics made here.
        out.push(unsafe {
            let count = call(pg_sys::int8_numeric, &[Some(count)]);
            call(pg_sys::numeric_div, &[Some(*sum), Some(count)])
        });
    }
    out
}
