//! `numeric` between PostgreSQL's stored form and a scaled 128-bit integer.
//!
//! Layout (PostgreSQL `numeric.c`): a 16-bit header, then base-10000 digits, most significant first, without leading
//! or trailing zero digits. The short header holds sign, display scale and weight; the long one has the weight in a
//! second 16-bit word. NaN and the infinities have headers of their own.

const SIGN_MASK: u16 = 0xC000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE_SHIFT: u16 = 7;
const SHORT_SCALE_MAX: u16 = 0x3F;
const SHORT_WEIGHT_MASK: u16 = 0x7F;
const DIGIT_BASE: u128 = 10_000;

/// Why a numeric has no decimal form.
#[derive(Debug, PartialEq, Eq)]
pub enum NotDecimal {
    NaN,
    Infinity,
    /// More than 38 digits at the wanted scale.
    TooWide,
    /// Digits beyond the wanted scale.
    Inexact,
}

/// Decodes the body of a numeric (after its length word) into an integer of `scale` decimal places.
pub fn decode(body: &[u8], scale: u8) -> Result<i128, NotDecimal> {
    let word = |i: usize| u16::from_ne_bytes([body[2 * i], body[2 * i + 1]]);
    let header = word(0);
    let (negative, weight, first_digit) = match header & SIGN_MASK {
        SPECIAL if header == SPECIAL => return Err(NotDecimal::NaN),
        SPECIAL => return Err(NotDecimal::Infinity),
        SHORT => {
            let weight = (header & SHORT_WEIGHT_MASK) as i16;
            let weight = if weight & 0x40 != 0 { weight - 0x80 } else { weight };
            (header & SHORT_NEGATIVE != 0, i32::from(weight), 1)
        }
        sign => (sign == NEGATIVE, i32::from(word(1) as i16), 2),
    };
    let count = body.len() / 2 - first_digit;
    // The last digit stands for 10000^(weight - count + 1); `exponent` brings it to 10^-scale.
    let exponent = 4 * (weight - count as i32 + 1) + i32::from(scale);
    let mut value: u128 = 0;
    for i in 0..count {
        let digit = u128::from(word(first_digit + i));
        // The last digit may reach below the scale; only its upper part counts, so that the sum stays in range.
        let (factor, digit) = if i + 1 == count && exponent < 0 {
            let cut = 10u128
                .checked_pow(exponent.unsigned_abs())
                .filter(|cut| *cut < DIGIT_BASE)
                .ok_or(NotDecimal::Inexact)?;
            if digit % cut != 0 {
                return Err(NotDecimal::Inexact);
            }
            (DIGIT_BASE / cut, digit / cut)
        } else {
            (DIGIT_BASE, digit)
        };
        value = value.checked_mul(factor).and_then(|v| v.checked_add(digit)).ok_or(NotDecimal::TooWide)?;
    }
    if count > 0 && exponent > 0 {
        let factor = 10u128.checked_pow(exponent.unsigned_abs()).ok_or(NotDecimal::TooWide)?;
        value = value.checked_mul(factor).ok_or(NotDecimal::TooWide)?;
    }
    if value >= 10u128.pow(38) {
        return Err(NotDecimal::TooWide);
    }
    Ok(if negative { -(value as i128) } else { value as i128 })
}

/// Appends the body of the numeric `unscaled × 10^-scale` with display scale `scale` to `out`.
///
/// 38 digits need a weight of at most 9 and a scale of at most 38, so the short header always fits.
pub fn encode(unscaled: i128, scale: u8, out: &mut Vec<u8>) {
    debug_assert!(u16::from(scale) <= SHORT_SCALE_MAX);
    let negative = unscaled < 0;
    let mut value = unscaled.unsigned_abs();
    // Align the decimal point with a base-10000 digit boundary.
    let fraction_digits = i32::from(scale.div_ceil(4));
    let mut digits = [0u16; 12];
    let mut count = 0;
    let pad = (4 - scale % 4) % 4;
    if pad > 0 && value > 0 {
        // The lowest base-10000 digit holds fewer than four decimal places.
        let low = 10u128.pow(u32::from(4 - pad));
        digits[0] = ((value % low) * 10u128.pow(u32::from(pad))) as u16;
        value /= low;
        count = 1;
    }
    while value > 0 {
        digits[count] = (value % DIGIT_BASE) as u16;
        value /= DIGIT_BASE;
        count += 1;
    }
    let mut lowest = 0;
    while lowest < count && digits[lowest] == 0 {
        lowest += 1;
    }
    while count > lowest && digits[count - 1] == 0 {
        count -= 1;
    }
    let empty = count == lowest;
    let weight = if empty { 0 } else { count as i32 - 1 - fraction_digits };
    let sign = if negative && !empty { SHORT_NEGATIVE } else { 0 };
    let header = SHORT | sign | (u16::from(scale) << SHORT_SCALE_SHIFT) | (weight as u16 & SHORT_WEIGHT_MASK);
    out.extend_from_slice(&header.to_ne_bytes());
    for i in (lowest..count).rev() {
        out.extend_from_slice(&digits[i].to_ne_bytes());
    }
}

/// Writes `unscaled × 10^-scale` as text.
pub fn to_text(unscaled: i128, scale: u8) -> String {
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let sign = if unscaled < 0 { "-" } else { "" };
    if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_round_trip() {
        let big = 10i128.pow(38) - 1;
        for scale in 0..=38u8 {
            for value in [
                0,
                1,
                -1,
                9,
                10,
                9999,
                10_000,
                -10_001,
                123_456_789,
                -99_990_000,
                big,
                -big,
                big / 10,
                5 * 10i128.pow(20),
            ] {
                let mut body = Vec::new();
                encode(value, scale, &mut body);
                assert_eq!(decode(&body, scale), Ok(value), "{value} scale {scale}");
            }
        }
    }

    #[test]
    fn special_values_are_named() {
        assert_eq!(decode(&0xC000u16.to_ne_bytes(), 0), Err(NotDecimal::NaN));
        assert_eq!(decode(&0xD000u16.to_ne_bytes(), 0), Err(NotDecimal::Infinity));
    }

    #[test]
    fn text_form() {
        for (unscaled, scale, text) in
            [(0, 0, "0"), (0, 2, "0.00"), (-5, 3, "-0.005"), (12345, 2, "123.45"), (7, 0, "7")]
        {
            assert_eq!(to_text(unscaled, scale), text);
        }
    }
}
