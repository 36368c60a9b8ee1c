//! Where an object is: store, bucket or container, and the name in it.

use object_store::path::Path;

use crate::error::{LakeError, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place<'a> {
    pub scheme: &'a str,
    pub bucket: &'a str,
    pub key: &'a str,
}

impl<'a> Place<'a> {
    /// Splits an object's URL; a path without scheme is a local file.
    pub fn parse(url: &'a str) -> Self {
        match url.split_once("://") {
            Some((scheme, rest)) if scheme != "file" => {
                let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
                Self { scheme, bucket, key }
            }
            Some((_, path)) => Self { scheme: "file", bucket: "", key: path },
            None => Self { scheme: "file", bucket: "", key: url.strip_prefix("file:").unwrap_or(url) },
        }
    }

    pub fn path(&self) -> Result<Path> {
        let key = self.key.trim_matches('/');
        Path::parse(key).map_err(|source| LakeError::Name { path: self.key.to_owned(), source })
    }

    /// The same object always has the same identity, although `s3://`, `s3a://` and `file:/` spell it differently.
    pub fn identity(&self) -> (&'a str, &'a str, &'a str) {
        let family = match self.scheme {
            "s3a" | "s3n" => "s3",
            "gcs" => "gs",
            "abfs" | "abfss" | "wasb" | "wasbs" | "azure" => "az",
            other => other,
        };
        (family, self.bucket.split('@').next().unwrap_or(self.bucket), self.key.trim_matches('/'))
    }
}

/// Joins a location and a relative name.
pub fn join(location: &str, name: &str) -> String {
    format!("{}/{name}", location.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        let place = Place::parse("s3://lake/n/t/data/p=2024-01/x.parquet");
        assert_eq!((place.scheme, place.bucket, place.key), ("s3", "lake", "n/t/data/p=2024-01/x.parquet"));
        for local in ["file:///tmp/x/y", "/tmp/x/y", "file:/tmp/x/y"] {
            assert_eq!(Place::parse(local).path().unwrap().as_ref(), "tmp/x/y");
        }
    }

    #[test]
    fn spellings_of_one_object_are_one() {
        assert_eq!(Place::parse("s3a://b/k").identity(), Place::parse("s3://b/k").identity());
        assert_eq!(Place::parse("abfss://c@a.dfs.core.windows.net/k").identity(), Place::parse("az://c/k").identity());
    }
}
