//! Without a build script cargo would not look at what only macros need.
fn main() {}
