//! Names as numbers: a recording holds millions of events of a few hundred threads.

use rustc_hash::FxHashMap;

use crate::row::NO_NAME;

/// The names of a recording, counted from 0 in the order in which they were first seen.
#[derive(Debug, Default)]
pub struct Vocabulary {
    numbers: FxHashMap<Box<[u8]>, u32>,
    names: Vec<String>,
}

impl Vocabulary {
    /// The number of a name; [`NO_NAME`] for an empty one.
    pub fn number(&mut self, name: &[u8]) -> u32 {
        if name.is_empty() {
            return NO_NAME;
        }
        if let Some(&known) = self.numbers.get(name) {
            return known;
        }
        // A name for each number below NO_NAME; what comes after has none.
        let Some(number) = u32::try_from(self.names.len()).ok().filter(|&number| number != NO_NAME) else {
            return NO_NAME;
        };
        self.numbers.insert(name.into(), number);
        self.names.push(String::from_utf8_lossy(name).into_owned());
        number
    }

    /// All names, in the order of their numbers.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }

    /// All names so far, in the order of their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number_and_no_name_has_none() {
        let mut vocabulary = Vocabulary::default();
        assert_eq!(vocabulary.number(b"ksoftirqd/0"), 0);
        assert_eq!(vocabulary.number(b"swapper/0"), 1);
        assert_eq!(vocabulary.number(b"ksoftirqd/0"), 0);
        assert_eq!(vocabulary.number(b""), NO_NAME);
        assert_eq!(vocabulary.into_names(), ["ksoftirqd/0", "swapper/0"]);
    }
}
