//! The first of many things, and how many there were.

/// Keeps no more than `MOST` of what it is given, and counts all.
#[derive(Debug, Clone)]
pub struct Kept<Item, const MOST: usize> {
    pub count: u64,
    pub items: Vec<Item>,
}

impl<Item, const MOST: usize> Default for Kept<Item, MOST> {
    fn default() -> Self {
        Self { count: 0, items: Vec::new() }
    }
}

impl<Item, const MOST: usize> Kept<Item, MOST> {
    pub fn add(&mut self, item: Item) {
        self.count += 1;
        if self.items.len() < MOST {
            self.items.push(item);
        }
    }

    /// How many are not kept.
    pub fn left_out(&self) -> u64 {
        self.count - self.items.len() as u64
    }
}

impl<const MOST: usize> Kept<u64, MOST> {
    /// How many of those that are kept are in a range.
    pub fn within(&self, first: u64, end: u64) -> u64 {
        self.items.iter().filter(|&&number| (first..end).contains(&number)).count() as u64
    }
}
