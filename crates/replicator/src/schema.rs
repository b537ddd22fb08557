//! Both sides compare their documents with `tests/golden/members.schema.json`: this test the Rust types, the Python
//! twin its models. After an intended change: `UPDATE_GOLDEN=1 cargo test -p stealtime-replicator schema`.

use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema};
use stealtime_capture::ALLOWED_DEVICES;
use stealtime_outputhold::NEVER_BYPASS_PORTS;

use crate::assignment::Assignment;
use crate::host_config::HostConfig;
use crate::spec::{MINIMUM_INTERVAL_NS, Spec};
use crate::status::Status;

/// Comments may change without a change of what is written.
fn without_comments(schema: &mut Schema) {
    schema.remove("description");
}

fn schema_of<T: JsonSchema>() -> Schema {
    let mut schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    RecursiveTransform(without_comments).transform(&mut schema);
    schema
}

#[test]
fn the_stored_schema_is_that_of_the_documents() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/members.schema.json");
    let assignment = schema_of::<Assignment>();
    let travels = assignment.get("properties").and_then(|fields| fields.as_object()).unwrap();
    let schemas = serde_json::json!({
        "spec": schema_of::<Spec>(),
        "host": schema_of::<HostConfig>(),
        "travels": travels.keys().collect::<Vec<_>>(),
        "status": schema_of::<Status>(),
        "limits": {
            "ports_always_held": NEVER_BYPASS_PORTS.map(|(port, _)| port),
            "devices": ALLOWED_DEVICES,
            "shortest_interval_ns": MINIMUM_INTERVAL_NS,
        },
    });
    let text = format!("{schemas:#}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(fs::read_to_string(&path).unwrap() == text, "the schema has changed: see the head of this file");
}
