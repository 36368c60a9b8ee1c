//! Names as parts of a URL. Whatever a name holds, it becomes one component.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Everything but RFC 3986's unreserved characters.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Stands between the levels of a namespace in a path.
const LEVEL_SEPARATOR: &str = "\u{1f}";

pub fn encode(name: &str) -> String {
    utf8_percent_encode(name, COMPONENT).to_string()
}

pub fn encode_namespace(levels: &[String]) -> String {
    encode(&levels.join(LEVEL_SEPARATOR))
}
