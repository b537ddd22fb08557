//! Nothing: this crate is its dependencies (`Cargo.toml`).
