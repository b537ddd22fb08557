//! The Rayleigh periodogram of event times.

use std::f64::consts::TAU;

/// Frequencies a window's resolution: a peak between two of them loses at most 9 % of its power.
const OVERSAMPLING: f64 = 3.0;
/// Bounds the work where one window is far longer than the others.
const FREQUENCIES_MAX: usize = 8192;

/// Power at equally spaced frequencies, in cycles a unit of time.
pub struct Spectrum {
    lowest: f64,
    step: f64,
    power: Vec<f64>,
}

impl Spectrum {
    /// Add up the periodograms of some windows of event times, from `lowest` to `highest`.
    ///
    /// Without a periodic cause each power is a sum of as many exponential variables of mean 1 as there are
    /// windows.
    pub fn of_windows(windows: &[&[f64]], lowest: f64, highest: f64) -> Self {
        let longest = windows.iter().map(|times| span(times)).fold(0.0, f64::max);
        let step = 1.0 / (OVERSAMPLING * longest);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, then bounded
        let frequencies = (((highest - lowest) / step).max(0.0) as usize + 1).min(FREQUENCIES_MAX);
        let mut power = vec![0.0; frequencies];
        for times in windows {
            add_power(times, lowest, step, &mut power);
        }
        Self { lowest, step, power }
    }

    /// How far apart two frequencies of the spectrum are.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// How many frequencies are independent of each other.
    pub fn independent(&self) -> f64 {
        self.power.len() as f64 / OVERSAMPLING
    }

    /// The frequency and the power of the highest peak that is not near one of `masked`.
    pub fn peak(&self, masked: &[f64]) -> Option<(f64, f64)> {
        let near = |frequency: f64| masked.iter().any(|mask| (frequency - mask).abs() < 4.0 * self.step);
        (0..self.power.len())
            .map(|index| (self.frequency(index), self.power[index]))
            .filter(|&(frequency, _)| !near(frequency))
            .max_by(|one, other| one.1.total_cmp(&other.1))
    }

    fn frequency(&self, index: usize) -> f64 {
        self.lowest + index as f64 * self.step
    }
}

/// From the first to the last event.
pub fn span(times: &[f64]) -> f64 {
    match times {
        [first, .., last] => last - first,
        _ => 0.0,
    }
}

/// `|sum exp(2 pi i f t)|^2 / n`.
pub fn rayleigh(times: &[f64], frequency: f64) -> f64 {
    let origin = times.first().copied().unwrap_or(0.0);
    let (mut cosine, mut sine) = (0.0, 0.0);
    for time in times {
        let (s, c) = (TAU * ((time - origin) * frequency).fract()).sin_cos();
        sine += s;
        cosine += c;
    }
    (cosine * cosine + sine * sine) / times.len() as f64
}

/// Rotate one pointer an event by a fixed angle from frequency to frequency: no sine in the inner loop, and
/// sums in [`LANES`] parts so that the compiler may use vectors. In `f32`, whose error after 8192 turns is
/// 1e-3 of a pointer.
fn add_power(times: &[f64], lowest: f64, step: f64, power: &mut [f64]) {
    let origin = times.first().copied().unwrap_or(0.0);
    let pointers = |frequency: f64| -> Pointers {
        let turn = |time: &f64| TAU * ((time - origin) * frequency).fract();
        Pointers::new(times.iter().map(turn))
    };
    let mut pointer = pointers(lowest);
    let turn = pointers(step);
    for power in power {
        let (mut sines, mut cosines) = ([0.0_f32; LANES], [0.0_f32; LANES]);
        for (now, by) in pointer.0.iter_mut().zip(&turn.0) {
            for lane in 0..LANES {
                let (sine, cosine) = (now.sine[lane], now.cosine[lane]);
                sines[lane] += sine;
                cosines[lane] += cosine;
                now.sine[lane] = sine * by.cosine[lane] + cosine * by.sine[lane];
                now.cosine[lane] = cosine * by.cosine[lane] - sine * by.sine[lane];
            }
        }
        let (sine, cosine) = (sum(&sines), sum(&cosines));
        *power += (sine * sine + cosine * cosine) / times.len() as f64;
    }
}

/// Two 128-bit vectors: with more, sums and pointers no longer fit the registers of x86-64.
const LANES: usize = 8;

/// Unit vectors, side by side for vector instructions; what fills the last group up has no length.
struct Pointers(Vec<Lanes>);

struct Lanes {
    sine: [f32; LANES],
    cosine: [f32; LANES],
}

impl Pointers {
    fn new(angles: impl Iterator<Item = f64>) -> Self {
        let mut groups: Vec<Lanes> = Vec::new();
        for (position, angle) in angles.enumerate() {
            let lane = position % LANES;
            if lane == 0 {
                groups.push(Lanes { sine: [0.0; LANES], cosine: [0.0; LANES] });
            }
            if let Some(group) = groups.last_mut() {
                let (sine, cosine) = angle.sin_cos();
                group.sine[lane] = short(sine);
                group.cosine[lane] = short(cosine);
            }
        }
        Self(groups)
    }
}

fn sum(lanes: &[f32; LANES]) -> f64 {
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

#[allow(clippy::cast_possible_truncation)] // on purpose, see `add_power`
fn short(value: f64) -> f32 {
    value as f32
}
