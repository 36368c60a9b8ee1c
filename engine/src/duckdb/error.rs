//! DuckDB errors as values. It classifies by the prefix that DuckDB itself puts before every message and
//! interprets nothing else.

use std::ffi::CStr;
use std::os::raw::c_char;

/// DuckDB's own class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    OutOfRange,
    Conversion,
    Transaction,
    NotImplemented,
    Catalog,
    Parser,
    Constraint,
    Connection,
    Settings,
    Binder,
    Io,
    Interrupt,
    Fatal,
    Internal,
    InvalidInput,
    OutOfMemory,
    Permission,
    Dependency,
    Http,
    MissingExtension,
    InvalidConfiguration,
    Other,
}

/// Prefixes as DuckDB writes them before `": "`.
const PREFIXES: &[(&str, Kind)] = &[
    ("Out of Range Error", Kind::OutOfRange),
    ("Conversion Error", Kind::Conversion),
    ("TransactionContext Error", Kind::Transaction),
    ("Not implemented Error", Kind::NotImplemented),
    ("Catalog Error", Kind::Catalog),
    ("Parser Error", Kind::Parser),
    ("Syntax Error", Kind::Parser),
    ("Constraint Error", Kind::Constraint),
    ("Connection Error", Kind::Connection),
    ("Settings Error", Kind::Settings),
    ("Binder Error", Kind::Binder),
    ("IO Error", Kind::Io),
    ("INTERRUPT Error", Kind::Interrupt),
    ("FATAL Error", Kind::Fatal),
    ("INTERNAL Error", Kind::Internal),
    ("Invalid Input Error", Kind::InvalidInput),
    ("Out of Memory Error", Kind::OutOfMemory),
    ("Permission Error", Kind::Permission),
    ("Dependency Error", Kind::Dependency),
    ("HTTP Error", Kind::Http),
    ("Missing Extension Error", Kind::MissingExtension),
    ("Invalid Configuration Error", Kind::InvalidConfiguration),
];

/// An error as DuckDB reported it. The text may hold credentials: mask it before it leaves the process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: Kind,
    /// Text without DuckDB's class prefix.
    pub message: String,
}

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Splits DuckDB's class prefix off `text`.
    pub fn from_text(text: &str) -> Self {
        for (prefix, kind) in PREFIXES {
            if let Some(rest) = text.strip_prefix(prefix).and_then(|rest| rest.strip_prefix(':')) {
                return Self::new(*kind, rest.trim());
            }
        }
        Self::new(Kind::Other, text.trim())
    }

    /// Copies an error text that DuckDB owns; a null pointer means that DuckDB gave no reason.
    ///
    /// # Safety
    /// `text` is null or points to a NUL-terminated string that stays valid during the call.
    pub(super) unsafe fn from_c(text: *const c_char) -> Self {
        if text.is_null() {
            return Self::new(Kind::Other, "DuckDB gave no reason");
        }
        // SAFETY: not null, and the caller vouches for the rest.
        Self::from_text(&unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }

    /// True when a statement ended because someone asked it to.
    pub fn is_interrupt(&self) -> bool {
        self.kind == Kind::Interrupt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_decides_the_kind() {
        let error = Error::from_text("IO Error: Could not read \"x\"\nLINE 1: …");
        assert_eq!((error.kind, error.message.as_str()), (Kind::Io, "Could not read \"x\"\nLINE 1: …"));
        assert_eq!(Error::from_text("something: odd").kind, Kind::Other);
        assert_eq!(Error::from_text("INTERRUPT Error: Interrupted!").kind, Kind::Interrupt);
    }
}
