//! The engine on a real catalog and object store (SeaweedFS): errors that name the part at fault, transactions, and
//! that nothing staged stays behind.

mod errors;
#[path = "../gateway/seaweed.rs"]
#[allow(dead_code)]
mod seaweed;
mod staging;
#[path = "../session/support.rs"]
#[allow(dead_code)]
mod support;
mod tables;
mod world;
