//! Utilizations with a given sum, each vector as likely as any other.

use rand::{Rng, RngExt};

use crate::error::RecipeError;

/// So many vectors are discarded before it is said that randfixedsum does better.
const MOST_DISCARDED: u32 = 100_000;

/// `UUniFast` (Bini and Buttazzo, Real-Time Systems 30, 2005); a vector with a utilization above 1 is discarded
/// (Davis and Burns, Real-Time Systems 47, 2011).
///
/// # Errors
/// [`RecipeError::Recipe`]: the total cannot be, or nearly every vector is discarded.
pub fn uunifast_discard(count: usize, total: f64, random: &mut impl Rng) -> Result<Vec<f64>, RecipeError> {
    check(count, total)?;
    for _ in 0..MOST_DISCARDED {
        let mut left = total;
        let mut shares = Vec::with_capacity(count);
        for others in (1..count).rev() {
            let next = left * random.random::<f64>().powf(1.0 / others as f64);
            shares.push(left - next);
            left = next;
        }
        shares.push(left);
        if shares.iter().all(|&share| share <= 1.0) {
            return Ok(shares);
        }
    }
    Err(RecipeError::Recipe(format!(
        "uunifast-discard found no {count} utilizations of at most 1 with the sum {total} in {MOST_DISCARDED} tries; \
         randfixedsum does"
    )))
}

/// R. Stafford's randfixedsum (2006), which Emberson, Stafford and Davis brought to task sets (WATERS 2010).
///
/// The part of the simplex in which no coordinate exceeds 1 is divided into simplices of equal volume; a table of
/// volumes tells how likely a walk through them goes either way.
///
/// # Errors
/// [`RecipeError::Recipe`]: the total cannot be.
pub fn rand_fixed_sum(count: usize, total: f64, random: &mut impl Rng) -> Result<Vec<f64>, RecipeError> {
    check(count, total)?;
    if count == 1 {
        return Ok(vec![total]);
    }
    let goes_up = transition_table(count, total);
    let mut shares = Vec::with_capacity(count);
    let mut cell = whole_part(total, count);
    let mut left = total;
    let (mut sum, mut product) = (0.0, 1.0);
    for dimension in (1..count).rev() {
        let up = random.random::<f64>() < goes_up[dimension - 1][cell];
        let step = if up { 1.0 } else { 0.0 };
        let root = random.random::<f64>().powf(1.0 / dimension as f64);
        sum += (1.0 - root) * product * left / (dimension + 1) as f64;
        product *= root;
        shares.push(sum + product * step);
        left -= step;
        cell = cell.saturating_sub(usize::from(up));
    }
    shares.push(sum + product * left);
    // The walk favours no simplex, but orders the coordinates.
    for last in (1..count).rev() {
        shares.swap(last, random.random_range(0..=last));
    }
    Ok(shares)
}

/// The simplex that a sum lies in: its whole part, at most `count - 1`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked to be between 0 and `count`
fn whole_part(total: f64, count: usize) -> usize {
    (total as usize).min(count - 1)
}

/// `table[i - 1][j]`: how likely the walk goes up from simplex `j` of dimension `i`.
fn transition_table(count: usize, total: f64) -> Vec<Vec<f64>> {
    let cell = whole_part(total, count) as f64;
    // Distances of the sum from the whole numbers below and above.
    let below: Vec<f64> = (0..count).map(|step| total - (cell - step as f64)).collect();
    let above: Vec<f64> = (0..count).map(|step| (cell + (count - step) as f64) - total).collect();
    let mut volume = vec![0.0; count + 1];
    // Only ratios of volumes matter; so large a one keeps the smallest from vanishing.
    volume[1] = f64::MAX;
    let mut table = Vec::with_capacity(count - 1);
    for size in 2..=count {
        let mut larger = vec![0.0; count + 1];
        let mut row = vec![0.0; count];
        for cell in 0..size {
            let from_below = volume[cell + 1] * below[cell] / size as f64;
            let from_above = volume[cell] * above[count - size + cell] / size as f64;
            larger[cell + 1] = from_below + from_above;
            let whole = larger[cell + 1] + f64::MIN_POSITIVE;
            row[cell] =
                if above[count - size + cell] > below[cell] { from_above / whole } else { 1.0 - from_below / whole };
        }
        volume = larger;
        table.push(row);
    }
    table
}

fn check(count: usize, total: f64) -> Result<(), RecipeError> {
    if total.is_finite() && total > 0.0 && total <= count as f64 {
        return Ok(());
    }
    Err(RecipeError::Recipe(format!("{count} utilizations of at most 1 cannot have the sum {total}")))
}
