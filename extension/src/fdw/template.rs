//! Engine SQL with holes for values that are known only when the statement runs.

use coldfront_common::types::ColumnType;
use serde::{Deserialize, Serialize};

/// One piece of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    Text(String),
    /// The n-th run-time value of the plan, of this type.
    Value(usize, ColumnType),
    /// The n-th run-time value, an array whose elements have this type, as a parenthesised list.
    Values(usize, ColumnType),
}

/// A statement as the planner leaves it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template(pub Vec<Piece>);

impl Template {
    pub fn push(&mut self, text: &str) {
        match self.0.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.0.push(Piece::Text(text.to_owned())),
        }
    }

    pub fn append(&mut self, other: Self) {
        for piece in other.0 {
            match piece {
                Piece::Text(text) => self.push(&text),
                value => self.0.push(value),
            }
        }
    }

    /// For people: holes as `$1`.
    pub fn display(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(n, _) => format!("${}", n + 1),
            Piece::Values(n, _) => format!("(${})", n + 1),
        };
        self.0.iter().map(piece).collect()
    }
}
