//! The numbers that RTP wants to be random: source, first sequence number, first timestamp (RFC 3550 section 5.1).

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// What the RTP header of a stream begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    /// No other stream of the sender has it.
    pub ssrc: u32,
    pub sequence: u16,
    pub timestamp: u32,
}

/// Draws them for all streams of a sender; `seed` is its own number.
pub fn numbers(seed: u64, streams: u32) -> Vec<Numbers> {
    let mut taken = HashSet::new();
    (0..streams)
        .map(|stream| {
            let first = xxh3_64_with_seed(&stream.to_be_bytes(), seed);
            // Among thousands of streams two draw the same source now and then (RFC 3550 section 8.1).
            let mut ssrc = high_half(first);
            let mut draw = first;
            while !taken.insert(ssrc) {
                draw = xxh3_64_with_seed(&draw.to_be_bytes(), seed);
                ssrc = high_half(draw);
            }
            let second = xxh3_64_with_seed(&first.to_be_bytes(), seed);
            let sequence = u16::try_from(second & 0xffff).unwrap_or_default();
            Numbers { ssrc, sequence, timestamp: high_half(second) }
        })
        .collect()
}

fn high_half(number: u64) -> u32 {
    u32::try_from(number >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_differ_also_among_many() {
        // Of 200,000 numbers of 32 bits some five pairs are alike.
        let all = numbers(42, 200_000);
        let distinct: HashSet<u32> = all.iter().map(|numbers| numbers.ssrc).collect();
        assert_eq!(distinct.len(), all.len());
        let drawn: HashSet<u32> =
            (0_u32..200_000).map(|stream| high_half(xxh3_64_with_seed(&stream.to_be_bytes(), 42))).collect();
        assert!(drawn.len() < all.len(), "no two were alike, so nothing was tested");
    }

    #[test]
    fn another_sender_has_other_numbers() {
        assert_ne!(numbers(1, 3), numbers(2, 3));
        assert_eq!(numbers(1, 3), numbers(1, 3));
    }
}
