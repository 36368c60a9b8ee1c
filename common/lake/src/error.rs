//! Why the lake could not be read or changed. No text holds a credential.

pub type Result<T, E = LakeError> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum LakeError {
    #[error("the Iceberg catalog at {at} does not answer: {cause}")]
    Unreachable { at: String, cause: String },
    #[error("the Iceberg catalog at {at} rejected the credentials: {said}; set them with coldfront.set_catalog_secret")]
    Unauthorized { at: String, said: String },
    #[error("the Iceberg catalog at {at} has no {what}: {said}")]
    NotFound { at: String, what: String, said: String },
    #[error("the Iceberg catalog at {at} answered {status} when asked for {what}: {said}")]
    Status { at: String, what: String, status: u16, said: String },
    #[error("the Iceberg catalog at {at} gave an answer for {what} that cannot be read: {cause}")]
    Malformed { at: String, what: String, cause: String },
    #[error("{what} was changed by somebody else at the same time")]
    Conflict { what: String },
    #[error("nobody knows whether a commit to {what} was applied ({cause}): run again, which is safe either way")]
    InDoubt { what: String, cause: String },
    #[error(
        "{0} is not in a store that can be reached with the configured credentials: see coldfront.set_storage_secret"
    )]
    Foreign(String),
    #[error("cannot set up access to the object store")]
    Setup(#[source] object_store::Error),
    #[error("{path} is not a valid object name")]
    Name { path: String, source: object_store::path::Error },
    #[error("cannot {action} {what}")]
    Store { action: &'static str, what: String, source: object_store::Error },
    #[error("cannot make sense of {what}")]
    Metadata { what: String, source: Box<iceberg::Error> },
    #[error("{what}")]
    Parquet { what: String, source: parquet::errors::ParquetError },
    #[error("{what}")]
    Arrow { what: String, source: arrow_schema::ArrowError },
    #[error("cannot write {what}")]
    Upload { what: String, source: std::io::Error },
    #[error("{0}")]
    Refused(String),
    #[error("a part of the work ended unexpectedly")]
    Task(#[source] tokio::task::JoinError),
}

/// Says what was being done when Parquet failed.
pub trait InParquet<T> {
    fn in_parquet(self, what: &str) -> Result<T>;
}

impl<T> InParquet<T> for std::result::Result<T, parquet::errors::ParquetError> {
    fn in_parquet(self, what: &str) -> Result<T> {
        self.map_err(|source| LakeError::Parquet { what: what.to_owned(), source })
    }
}

/// Says what was being done when Arrow failed.
pub trait InArrow<T> {
    fn in_arrow(self, what: &str) -> Result<T>;
}

impl<T> InArrow<T> for std::result::Result<T, arrow_schema::ArrowError> {
    fn in_arrow(self, what: &str) -> Result<T> {
        self.map_err(|source| LakeError::Arrow { what: what.to_owned(), source })
    }
}

/// Says what was being done when the Iceberg library failed.
pub trait InIceberg<T> {
    fn in_iceberg(self, what: &str) -> Result<T>;
}

impl<T> InIceberg<T> for std::result::Result<T, iceberg::Error> {
    fn in_iceberg(self, what: &str) -> Result<T> {
        self.map_err(LakeError::metadata(what))
    }
}

impl LakeError {
    pub(crate) fn metadata(what: impl Into<String>) -> impl FnOnce(iceberg::Error) -> Self {
        let what = what.into();
        move |source| Self::Metadata { what, source: Box::new(source) }
    }

    /// Whether the catalog said no: what was asked is not done and will not be.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Status { status, .. } => (400..500).contains(status) && *status != 408,
            Self::Conflict { .. } | Self::Unauthorized { .. } | Self::NotFound { .. } => true,
            _ => false,
        }
    }

    /// Whether the object that was asked for is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Store { source: object_store::Error::NotFound { .. }, .. })
    }
}
