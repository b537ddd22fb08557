//! In which order pages are rewritten: all of them once a round, neighbours far apart, and without a table.
//!
//! Step `k` goes to page `k * stride mod pages`. With a stride that has no common divisor with the number of
//! pages each page comes once a round, and how often a page was rewritten follows from the number of steps
//! alone: no second copy of that knowledge lies in memory that could be lost together with the page.

/// The order over a number of pages.
#[derive(Debug, Clone, Copy)]
pub struct Order {
    pages: u64,
    stride: u64,
    /// `stride * inverse` is 1 modulo `pages`.
    inverse: u64,
}

impl Order {
    /// An order of `pages` pages, at least one.
    pub fn of(pages: u64) -> Self {
        // Near the golden section: each step lands in the widest gap that those before it have left.
        let wanted = pages.saturating_mul(618) / 1000;
        let found = (wanted.max(1)..).find_map(|stride| Some((stride, inverse_of(stride, pages)?)));
        // There always is one: two neighbouring numbers are never both multiples of the same prime.
        let (stride, inverse) = found.unwrap_or((1, 1));
        Self { pages, stride: stride % pages, inverse }
    }

    pub fn page(&self, step: u64) -> u64 {
        product(step % self.pages, self.stride, self.pages)
    }

    /// How often a page has been rewritten after so many steps.
    pub fn generation(&self, page: u64, steps: u64) -> u64 {
        let position = product(page, self.inverse, self.pages);
        steps / self.pages + u64::from(position < steps % self.pages)
    }
}

/// `left * right mod modulus`; the modulus is a number of pages, so it is far below 2^32 and nothing
/// overflows.
fn product(left: u64, right: u64, modulus: u64) -> u64 {
    left * right % modulus
}

/// The inverse by Euclid's extended algorithm; None if the two have a common divisor.
fn inverse_of(number: u64, modulus: u64) -> Option<u64> {
    let (modulus, number) = (i128::from(modulus), i128::from(number));
    let (mut remainder, mut next_remainder) = (modulus, number % modulus);
    let (mut factor, mut next_factor) = (0_i128, 1_i128);
    while next_remainder != 0 {
        let quotient = remainder / next_remainder;
        (remainder, next_remainder) = (next_remainder, remainder - quotient * next_remainder);
        (factor, next_factor) = (next_factor, factor - quotient * next_factor);
    }
    if remainder == 1 { u64::try_from(factor.rem_euclid(modulus)).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn generations_are_what_counting_the_steps_gives(pages in 1..300_u64, steps in 0..1500_u64) {
            let order = Order::of(pages);
            let mut counted = vec![0_u64; usize::try_from(pages).unwrap()];
            for step in 0..steps {
                counted[usize::try_from(order.page(step)).unwrap()] += 1;
            }
            let told: Vec<u64> = (0..pages).map(|page| order.generation(page, steps)).collect();
            prop_assert_eq!(told, counted);
        }
    }

    #[test]
    fn neighbouring_steps_are_far_apart() {
        for pages in [16_384_u64, 16_383, 1000, 4096] {
            let order = Order::of(pages);
            for step in 0..200 {
                let distance = order.page(step).abs_diff(order.page(step + 1));
                assert!(distance.min(pages - distance) > pages / 4, "{pages} pages, step {step}: {distance}");
            }
        }
    }
}
