//! Keeps credentials out of logs and errors.

/// What stands where a secret stood.
pub const MASK: &str = "********";

/// Replaces every occurrence of each secret in `text`.
///
/// Secrets shorter than four characters are left alone: masking them would
/// mangle ordinary words and they protect nothing.
pub fn mask(text: &str, secrets: &[String]) -> String {
    let mut out = text.to_owned();
    for secret in secrets.iter().filter(|s| s.len() >= 4) {
        out = out.replace(secret.as_str(), MASK);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_vanish_wherever_they_stand() {
        let secrets = vec!["hunter22".to_owned(), "ab".to_owned(), String::new()];
        assert_eq!(mask("SECRET 'hunter22' ab hunter22", &secrets), "SECRET '********' ab ********");
    }
}
