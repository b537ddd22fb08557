//! What disturbed a sample.

use std::ops::{BitOr, BitOrAssign};

/// A set of marks; disturbed samples are kept, and told apart by them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    pub const NONE: Self = Self(0);
    /// An interrupt began inside, other than the one that the sample is about.
    pub const INTERRUPTED: Self = Self(1);
    /// The host took the CPU meanwhile.
    pub const TAKEN: Self = Self(2);
    /// Events of another CPU were lost meanwhile.
    pub const LOST_NEAR: Self = Self(4);
    /// It concerns a real-time thread.
    pub const REAL_TIME: Self = Self(8);
    /// Of a chain: the thread ran at the first choice of the scheduler after its release.
    pub const DIRECT: Self = Self(16);
    /// Of a chain: the scheduler's entry and exit are known.
    pub const FINE: Self = Self(32);

    /// All of them, by name.
    pub const NAMED: [(&'static str, Self); 6] = [
        ("interrupted", Self::INTERRUPTED),
        ("taken", Self::TAKEN),
        ("lost_near", Self::LOST_NEAR),
        ("real_time", Self::REAL_TIME),
        ("direct", Self::DIRECT),
        ("fine", Self::FINE),
    ];

    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    /// The set, if a condition holds.
    #[must_use]
    pub fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::NONE }
    }

    /// As a number, for columns.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
