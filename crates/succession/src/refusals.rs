//! What came and was not believed.

use serde::Serialize;

/// Counts of refused input, by reason.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Refusals {
    /// Messages of a term that is not of this session.
    pub wrong_term: u64,
    /// Epochs or acknowledgements that do not follow from what came before.
    pub wrong_epoch: u64,
    /// What cannot happen in the present state, or came twice.
    pub unexpected: u64,
}

impl std::hash::Hash for Refusals {
    /// What was refused changes nothing that is decided later, so states that differ only in it are searched
    /// once.
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}
