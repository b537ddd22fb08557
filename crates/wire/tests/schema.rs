//! Both sides compare their messages with `tests/golden/messages.schema.json`: this test the Rust types, the Python
//! twin its models. After an intended change of the protocol: `UPDATE_GOLDEN=1 cargo test -p stealtime-wire`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use stealtime_wire::{FromAgent, ToAgent};

/// Comments may change without a change of the protocol.
fn without_comments(schema: &mut Schema) {
    schema.remove("description");
}

fn schema_of<T: JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(without_comments).transform(&mut schema);
    schema
}

#[test]
fn the_stored_schema_is_that_of_the_messages() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/messages.schema.json");
    let schemas = serde_json::json!({ "to_agent": schema_of::<ToAgent>(), "from_agent": schema_of::<FromAgent>() });
    let text = format!("{schemas:#}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == text, "the schema has changed: see the head of this test");
}
