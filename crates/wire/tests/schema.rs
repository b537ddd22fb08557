//! Holds `tests/golden/messages.schema.json` to the types of the messages. The Python models are generated from it
//! (`tests/unit/test_message_models.py`). After an intended change of the protocol, or of its comments:
//! `UPDATE_GOLDEN=1 cargo test -p stealtime-wire`, then `UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py`.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use stealtime_wire::{FromAgent, PROTOCOL_VERSION, ToAgent};

#[test]
fn the_stored_schema_is_that_of_the_messages() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/messages.schema.json");
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.subschema_for::<ToAgent>();
    generator.subschema_for::<FromAgent>();
    let schema = serde_json::json!({
        "protocol_version": PROTOCOL_VERSION,
        "$defs": generator.take_definitions(true),
    });
    let text = format!("{schema:#}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == text, "the schema has changed: see the head of this test");
}
