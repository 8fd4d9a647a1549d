//! The documents of this repository.

use crate::document::Document;

macro_rules! documents {
    ($($name:literal,)*) => {
        const DOCUMENTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../documents/", $name, ".json"))),)*];
    };
}

documents! {
    "echo",
}

/// Every document of this repository, in the order of their names.
///
/// # Panics
///
/// If one of them does not parse, which a test would have found.
pub fn builtin() -> Vec<Document> {
    DOCUMENTS
        .iter()
        .map(|(name, text)| match Document::parse(text, name) {
            Ok(document) => document,
            Err(error) => panic!("{error}"),
        })
        .collect()
}
