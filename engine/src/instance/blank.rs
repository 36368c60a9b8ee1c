//! An instance before it is given to anybody: extensions are loaded and settings made, which takes most of a second.

use std::sync::Arc;

use super::inputs::ConnectionInputs;
use super::settings::{self, Limits};
use crate::duckdb::{Database, Error};
use crate::staging::{Attribution, LOG_STORAGE};

/// Extensions every instance loads, in an order that satisfies their dependencies.
const EXTENSIONS: &[&str] = &["avro", "httpfs", "icu", "json", "iceberg"];

/// See the module.
pub struct Blank {
    pub number: u64,
    pub database: Arc<Database>,
    pub inputs: Arc<ConnectionInputs>,
    pub attribution: Arc<Attribution>,
    pub limits: Limits,
}

impl Blank {
    pub fn open(limits: &Limits, number: u64) -> Result<Self, Error> {
        let database = Database::open(&limits.open_settings(number))?;
        let mut connection = database.connect()?;
        for name in EXTENSIONS {
            connection.execute(&format!("LOAD {name}"))?;
        }
        connection.execute(&settings::instance_sql())?;
        let attribution = Arc::new(Attribution::default());
        database.register_log(LOG_STORAGE, attribution.clone())?;
        connection.execute(&Attribution::enable_sql())?;
        let inputs = ConnectionInputs::new(&database);
        database.serve_inputs(inputs.clone())?;
        Ok(Self { number, database, inputs, attribution, limits: limits.clone() })
    }
}
