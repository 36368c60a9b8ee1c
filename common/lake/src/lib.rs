//! What the archiver and the compactor need to read and commit Iceberg tables: the REST catalog, the object store,
//! manifests, and the kinds of commit that the `iceberg` crate lacks.
//!
//! It is a crate of its own because a PostgreSQL backend links `coldfront-common`, and may not link any of this.
//! "Spec" in comments is the Iceberg table specification, by the name of its section.

pub mod adapt;
pub mod catalog;
pub mod commit;
pub mod data_file;
pub mod data_file_writer;
mod dictionary;
mod encode;
mod error;
mod oauth;
mod percent;
pub mod place;
pub mod read;
mod row_group;
pub mod store;
pub mod summary;
pub mod writable;

pub use error::{InArrow, InIceberg, InParquet, LakeError, Result};
