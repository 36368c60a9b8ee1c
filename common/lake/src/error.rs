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
    #[error("{0}")]
    Refused(String),
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
