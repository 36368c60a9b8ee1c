//! Names as parts of a URL. Whatever a name holds (dots, slashes, quotes, spaces, any script) it becomes one component.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Everything but RFC 3986's unreserved characters.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Stands between the levels of a namespace in a path.
const LEVEL_SEPARATOR: &str = "\u{1f}";

/// Encodes a name for use as one path segment, query value or form value.
pub fn encode(name: &str) -> String {
    utf8_percent_encode(name, COMPONENT).to_string()
}

/// Encodes a namespace for use as one path segment.
pub fn encode_namespace(levels: &[&str]) -> String {
    encode(&levels.join(LEVEL_SEPARATOR))
}

/// The name in a path segment; bytes that are not UTF-8 are replaced.
pub fn decode(segment: &str) -> String {
    percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

/// The levels of the namespace in a path segment.
pub fn decode_namespace(segment: &str) -> Vec<String> {
    decode(segment).split(LEVEL_SEPARATOR).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_come_back() {
        for name in ["a.b", "a/b", "x \"'", "Ünï", "%2F", "a+b", "..", "\u{1f600}", "a\\b", "q?#&="] {
            let encoded = encode(name);
            assert!(encoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"%-._~".contains(&b)), "{encoded}");
            assert_eq!(decode(&encoded), name);
        }
    }

    #[test]
    fn namespaces_keep_their_levels() {
        assert_eq!(encode_namespace(&["a.b", "ü/"]), "a.b%1F%C3%BC%2F");
        assert_eq!(decode_namespace("a.b%1F%C3%BC%2F"), ["a.b", "ü/"]);
    }
}
