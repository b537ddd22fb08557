//! The laws of the University of North Carolina's studies (`schedcat/generator/tasksets.py`, and
//! `gen/generator.py` of experiment-scripts).

use rand::{Rng, RngExt};

const MILLISECOND_NS: u64 = 1_000_000;

/// How one task's utilization is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UtilizationLaw {
    Uniform {
        low: f64,
        high: f64,
    },
    /// Drawn again until at most 1: the mean is that before this cut.
    Exponential {
        mean: f64,
    },
    /// Of nine tasks `light` are uniform in [0.001, 0.5], the others in [0.5, 0.9].
    Bimodal {
        light: u8,
    },
}

impl UtilizationLaw {
    /// The published ones, with the names that files use.
    pub const NAMED: [(&str, Self); 11] = [
        ("very-light-uniform", Self::Uniform { low: 0.0001, high: 0.001 }),
        ("light-uniform", Self::Uniform { low: 0.001, high: 0.1 }),
        ("medium-uniform", Self::Uniform { low: 0.1, high: 0.4 }),
        ("heavy-uniform", Self::Uniform { low: 0.5, high: 0.9 }),
        ("mixed-uniform", Self::Uniform { low: 0.001, high: 0.4 }),
        ("light-bimodal", Self::Bimodal { light: 8 }),
        ("medium-bimodal", Self::Bimodal { light: 6 }),
        ("heavy-bimodal", Self::Bimodal { light: 4 }),
        ("light-exponential", Self::Exponential { mean: 0.10 }),
        ("medium-exponential", Self::Exponential { mean: 0.25 }),
        ("heavy-exponential", Self::Exponential { mean: 0.50 }),
    ];

    /// One of them.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|&(_, law)| law)
    }

    pub fn draw(self, random: &mut impl Rng) -> f64 {
        match self {
            Self::Uniform { low, high } => uniform(random, low, high),
            Self::Exponential { mean } => loop {
                let drawn = -mean * (1.0 - random.random::<f64>()).ln();
                if drawn <= 1.0 {
                    return drawn;
                }
            },
            Self::Bimodal { light } if random.random_range(0..9) < light => uniform(random, 0.001, 0.5),
            Self::Bimodal { .. } => uniform(random, 0.5, 0.9),
        }
    }
}

/// How one task's period is drawn: whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodLaw {
    /// Each as likely, both ends included.
    Uniform { low_ms: u64, high_ms: u64 },
    /// The logarithm is uniform.
    LogUniform { low_ms: u64, high_ms: u64 },
    /// 25, 50, 100 or 200 ms.
    Harmonic,
}

impl PeriodLaw {
    /// The published ones, with the names that files use.
    pub const NAMED: [(&str, Self); 7] = [
        ("short", Self::Uniform { low_ms: 3, high_ms: 33 }),
        ("moderate", Self::Uniform { low_ms: 10, high_ms: 100 }),
        ("long", Self::Uniform { low_ms: 50, high_ms: 250 }),
        ("log-short", Self::LogUniform { low_ms: 3, high_ms: 33 }),
        ("log-moderate", Self::LogUniform { low_ms: 10, high_ms: 100 }),
        ("log-long", Self::LogUniform { low_ms: 50, high_ms: 250 }),
        ("harmonic", Self::Harmonic),
    ];

    /// One of them.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|&(_, law)| law)
    }

    /// Draw a period in nanoseconds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between the two ends
    pub fn draw(self, random: &mut impl Rng) -> u64 {
        let ms = match self {
            Self::Uniform { low_ms, high_ms } => random.random_range(low_ms..=high_ms),
            Self::LogUniform { low_ms, high_ms } => {
                let drawn = uniform(random, (low_ms as f64).ln(), ((high_ms + 1) as f64).ln()).exp();
                (drawn as u64).clamp(low_ms, high_ms)
            }
            Self::Harmonic => [25, 50, 100, 200][random.random_range(0..4)],
        };
        ms * MILLISECOND_NS
    }
}

/// Draw from `[low, high)`.
pub fn uniform(random: &mut impl Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * random.random::<f64>()
}
