//! Periods that were put in come out again; where none was put in, none comes out.

use proptest::prelude::*;
use stealtime_analysis::{Period, Series, SeriesInput, Spacing};

const UNITS_PER_S: f64 = 2e9;

/// A small generator (`SplitMix64`), so that a seed always means the same series.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Something that takes the CPU away at known times.
#[derive(Debug, Clone, Copy)]
struct Cause {
    period_s: f64,
    cost_ns: f64,
    /// A pause may begin later by up to this share of what is left of its period, and ends on time all the
    /// same: a quota.
    late: f64,
    /// Normal, as a share of the period.
    jitter: f64,
    missed: f64,
}

impl Cause {
    /// Whether it takes so much of its period that it would run into the next if it were any longer.
    fn is_pause(&self) -> bool {
        self.cost_ns > 0.1 * self.period_s * 1e9
    }
}

/// What disturbs the loop, besides noise on every turn.
#[derive(Debug, Clone)]
struct World {
    loop_ns: f64,
    duration_s: f64,
    causes: Vec<Cause>,
    /// Disturbances a second at random times, with log-uniform costs from 1 us to 1 ms.
    random_rate_hz: f64,
    /// How many random disturbances follow each other closely.
    burst: u32,
    seed: u64,
}

impl World {
    fn quiet(loop_us: f64, duration_s: f64) -> Self {
        Self { loop_ns: loop_us * 1e3, duration_s, causes: Vec::new(), random_rate_hz: 0.0, burst: 1, seed: 1 }
    }

    fn with(mut self, rate_hz: f64, cost_ns: f64) -> Self {
        self.causes.push(Cause { period_s: 1.0 / rate_hz, cost_ns, late: 0.0, jitter: 0.0, missed: 0.0 });
        self
    }

    fn with_pause(mut self, pause: Cause) -> Self {
        self.causes.push(pause);
        self
    }

    /// All disturbances as time and cost in ns, in order.
    fn disturbances(&self, random: &mut Random) -> Vec<(f64, f64)> {
        let mut all = Vec::new();
        for cause in &self.causes {
            let phase = random.uniform();
            let mut cycle = 0.0;
            while (cycle + phase) * cause.period_s < self.duration_s {
                let at = (cycle + phase + cause.jitter * random.normal()) * cause.period_s;
                let late_ns = cause.late * random.uniform() * (cause.period_s * 1e9 - cause.cost_ns);
                if random.uniform() >= cause.missed {
                    let spread = if cause.is_pause() { 0.0 } else { 0.1 * random.uniform() };
                    all.push((at * 1e9 + late_ns, cause.cost_ns * (1.0 + spread) - late_ns));
                }
                cycle += 1.0;
            }
        }
        if self.random_rate_hz > 0.0 {
            let mut at = random.exponential(1.0 / self.random_rate_hz);
            while at < self.duration_s {
                let mut within = at;
                for _ in 0..self.burst {
                    all.push((within * 1e9, 1e3 * 1000_f64.powf(random.uniform())));
                    within += random.exponential(3e-4);
                }
                at += random.exponential(1.0 / self.random_rate_hz);
            }
        }
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        all
    }

    fn samples(&self) -> Vec<u32> {
        let mut random = Random(self.seed);
        let mut disturbances = self.disturbances(&mut random).into_iter().peekable();
        let mut samples = Vec::new();
        let mut now_ns = 0.0;
        while now_ns < self.duration_s * 1e9 {
            let mut end = now_ns + self.loop_ns + random.exponential(30.0);
            while let Some((at, cost)) = disturbances.next_if(|disturbance| disturbance.0 < end) {
                // What comes in the middle of a long pause is over before its end.
                end = if end - at > cost && end - now_ns > 10.0 * self.loop_ns { end } else { end + cost };
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            samples.push(((end - now_ns) * UNITS_PER_S / 1e9) as u32);
            now_ns = end;
        }
        samples
    }

    fn periods(&self) -> Vec<Period> {
        let samples = self.samples();
        let input = SeriesInput {
            durations: &samples,
            saturated: vec![],
            spacing: Spacing::Tiled,
            units_per_s: UNITS_PER_S,
            calibrated_floor: None,
        };
        Series::new(input).expect("the series is whole").periods()
    }
}

/// The rates found, in Hz, ascending and rounded to a hundredth.
fn rates(periods: &[Period]) -> Vec<f64> {
    let mut rates: Vec<f64> = periods.iter().map(|period| (period.rate_hz * 100.0).round() / 100.0).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

#[track_caller]
fn assert_finds(world: &World, wanted_hz: &[f64]) -> Vec<Period> {
    let periods = world.periods();
    let rates = rates(&periods);
    let agree = rates.len() == wanted_hz.len()
        && rates.iter().zip(wanted_hz).all(|(rate, wanted)| (rate - wanted).abs() <= 2e-3 * wanted);
    assert!(agree, "wanted {wanted_hz:?} Hz, found {rates:?}: {periods:#?}");
    periods
}

#[test]
fn a_tick_is_found_with_its_cost() {
    let periods = assert_finds(&World::quiet(68.0, 10.0).with(250.0, 3_000.0), &[250.0]);
    assert!((periods[0].cost_p50_ns - 3_150.0).abs() < 60.0, "{periods:?}");
    assert!(periods[0].coverage > 0.99, "{periods:?}");
    assert!(periods[0].events.abs_diff(2_500) <= 5, "{periods:?}");
}

#[test]
fn a_sample_of_a_quarter_of_the_period_still_shows_it() {
    assert_finds(&World::quiet(240.0, 10.0).with(1000.0, 2_000.0), &[1000.0]);
}

#[test]
fn a_period_of_four_and_a_half_samples_is_not_halved() {
    // Its occurrences fall into two heaps of phase, half a sample apart.
    let (rate_hz, share) = (715.449_434_311_877, 0.219_533_117_261_612_98);
    let world = World::quiet(share * 1e6 / rate_hz, 400.0 / rate_hz).with(rate_hz, 16_015.455_844_071_63);
    assert_finds(&World { seed: 1_930_525_801_012_651_239, ..world }, &[rate_hz]);
    // Nearly four: they wander through a quarter of the phases.
    let (rate_hz, share) = (1_158.344_741_149_867, 0.237_488_123_759_861_25);
    let world = World::quiet(share * 1e6 / rate_hz, 400.0 / rate_hz).with(rate_hz, 40_986.784_632_194_46);
    assert_finds(&World { seed: 17_553_982_246_248_547_695, ..world }, &[rate_hz]);
}

#[test]
fn a_rare_dear_cause_is_found_beside_a_frequent_cheap_one() {
    let periods = assert_finds(&World::quiet(68.0, 20.0).with(250.0, 3_000.0).with(1.0, 50e6), &[1.0, 250.0]);
    assert!((periods[0].cost_p50_ns - 52.5e6).abs() < 2e6, "{periods:?}");
    assert!(periods[0].lost_share > 0.9, "{periods:?}");
}

#[test]
fn five_seconds_are_enough_for_a_cause_of_every_second() {
    assert_finds(&World::quiet(68.0, 5.0).with(1.0, 50e6), &[1.0]);
}

#[test]
fn two_periods_of_similar_cost_are_told_apart() {
    assert_finds(&World::quiet(68.0, 20.0).with(1000.0, 2_500.0).with(100.0, 3_000.0), &[100.0, 1000.0]);
    assert_finds(&World::quiet(20.0, 20.0).with(250.0, 4_000.0).with(333.0, 3_000.0), &[250.0, 333.0]);
}

/// 250 Hz and 100 Hz, both of a tick's cost, as a host and its own host make them: together they fill three
/// quarters of the cycles of 300 Hz and two thirds of those of 200 Hz. Where every other event of 100 Hz
/// falls into a sample with one of 250 Hz, 50 Hz is what is left of it.
#[test]
fn two_locked_ticks_do_not_make_a_third() {
    for seed in 30..=45 {
        let mut world = World::quiet(68.0, 5.0).with(250.0, 14_500.0).with(100.0, 14_000.0);
        world.causes[0].jitter = 0.01;
        world.causes[1].jitter = 0.01;
        world.random_rate_hz = 20.0;
        world.seed = seed;
        let found = rates(&world.periods());
        assert!(found.iter().any(|rate| (rate - 250.0).abs() < 0.5), "seed {seed}: {found:?}");
        let is_true = |rate: &f64| [50.0, 100.0, 250.0].iter().any(|known| (rate - known).abs() < 0.5);
        assert!(found.iter().all(is_true), "seed {seed}: {found:?}");
    }
}

#[test]
fn jitter_missed_ticks_and_random_noise_do_not_hide_a_tick() {
    let mut world = World::quiet(68.0, 20.0).with(250.0, 4_000.0);
    world.causes[0].jitter = 0.05;
    world.causes[0].missed = 0.2;
    world.random_rate_hz = 100.0;
    let periods = assert_finds(&world, &[250.0]);
    assert!((0.75..0.9).contains(&periods[0].coverage), "{periods:?}");
}

#[test]
fn ticks_of_which_most_are_missed_are_no_period() {
    let mut world = World::quiet(68.0, 20.0).with(250.0, 4_000.0);
    world.causes[0].missed = 0.6;
    assert_finds(&world, &[]);
}

/// What takes most comes first, with its right length, and no multiple of its rate beside it.
#[track_caller]
fn assert_pause_comes_first(world: &World, pause: Cause) {
    let periods = world.periods();
    let told = format!("{pause:?}, seed {}: {periods:#?}", world.seed);
    let first = periods.first().unwrap_or_else(|| panic!("{told}"));
    assert!((first.period_s / pause.period_s - 1.0).abs() < 5e-3, "{told}");
    let usual_ns = pause.cost_ns * if pause.is_pause() { 1.0 } else { 1.05 };
    let expected_ns = usual_ns - 0.5 * pause.late * (pause.period_s * 1e9 - pause.cost_ns);
    let tolerance_ns = 0.03 * expected_ns + 0.5 * pause.late * (pause.period_s * 1e9 - pause.cost_ns) + 20e3;
    assert!((first.cost_p50_ns - expected_ns).abs() < tolerance_ns, "{told}");
    for other in &periods[1..] {
        let tick = world.causes.iter().any(|cause| (other.period_s / cause.period_s - 1.0).abs() < 5e-3);
        assert!(tick, "{told}");
    }
}

fn pause(period_ms: f64, share: f64) -> Cause {
    Cause { period_s: period_ms / 1e3, cost_ns: share * period_ms * 1e6, late: 0.0, jitter: 0.0, missed: 0.0 }
}

/// 75, 80 and 90 ms of every 100 used to come out as "0.4 us".
#[test]
fn a_pause_of_most_of_each_period_is_told_with_its_length() {
    for share in [0.01, 0.25, 0.5, 0.7, 0.75, 0.8, 0.9, 0.95, 0.99] {
        for late in [0.0, 0.2] {
            let pause = Cause { late: if share < 0.5 { 0.0 } else { late }, ..pause(100.0, share) };
            for world in [World::quiet(68.0, 5.0), World::quiet(68.0, 5.0).with(250.0, 3_000.0)] {
                assert_pause_comes_first(&world.with_pause(pause), pause);
            }
        }
    }
}

#[test]
fn a_pause_of_every_second_is_told_with_its_length() {
    for share in [0.05, 0.5, 0.8, 0.95] {
        let world = World::quiet(68.0, 12.0).with(250.0, 3_000.0).with_pause(pause(1_000.0, share));
        assert_pause_comes_first(&world, pause(1_000.0, share));
    }
}

/// What remains of the cycle says where in it everything else is; that is no period.
#[test]
fn noise_between_the_pauses_of_a_quota_makes_no_second_period() {
    for seed in 0..6 {
        let mut world = World::quiet(68.0, 5.0).with_pause(pause(100.0, 0.8));
        (world.seed, world.random_rate_hz) = (seed, 300.0);
        assert_pause_comes_first(&world, pause(100.0, 0.8));
    }
}

/// Pauses of one length with any time between them have no period, however much of the time they take.
#[test]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // small and positive
fn pauses_at_random_times_have_no_period() {
    for seed in 0..10 {
        let mut random = Random(seed);
        let mut samples = Vec::new();
        while samples.len() < 30_000 {
            for _ in 0..(random.exponential(300.0) as usize) {
                samples.push(136_000 + (60.0 * random.uniform()) as u32);
            }
            samples.push(160_000_000);
        }
        let input = SeriesInput {
            durations: &samples,
            saturated: vec![],
            spacing: Spacing::Tiled,
            units_per_s: UNITS_PER_S,
            calibrated_floor: None,
        };
        let periods = Series::new(input).expect("the series is whole").periods();
        assert!(periods.is_empty(), "seed {seed}: {periods:#?}");
    }
}

/// In how many of 100 seeds a period is named.
fn false_alarms(rate_hz: f64, burst: u32) -> usize {
    let named = |seed: &u64| {
        let world = World { random_rate_hz: rate_hz, burst, seed: *seed, ..World::quiet(68.0, 2.0) };
        !world.periods().is_empty()
    };
    (0..100_u64).filter(named).count()
}

#[test]
fn random_noise_gives_no_period_in_99_of_100_seeds() {
    for (rate_hz, burst) in [(10.0, 1), (300.0, 1), (3_000.0, 1), (20.0, 8)] {
        let named = false_alarms(rate_hz, burst);
        assert!(named <= 1, "{named} of 100 seeds at {rate_hz} Hz in bursts of {burst}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_tick_is_found(
        rate_hz in 20.0..2_000.0_f64, cost_ns in 1_000.0..50_000.0_f64, share in 0.02..0.24_f64, seed: u64,
    ) {
        let world = World { seed, ..World::quiet(share * 1e6 / rate_hz, 400.0 / rate_hz).with(rate_hz, cost_ns) };
        let found = rates(&world.periods());
        prop_assert_eq!(found.len(), 1, "{:?} at {} Hz", found, rate_hz);
        prop_assert!((found[0] - rate_hz).abs() < 2e-3 * rate_hz, "{:?} is not {} Hz", found, rate_hz);
    }

    /// Whatever its length, rate and jitter, beside a tick or alone, at the start of a sample or in the middle.
    #[test]
    fn any_pause_comes_first(
        period_ms in 1.0_f64..300.0, share in 0.02..0.97_f64, with_tick: bool, jitter in 0.0..0.01_f64, seed: u64,
    ) {
        // A cause is placed to within one sample: a cycle must have more than two of them besides the pause.
        prop_assume!((1.0 - share) * period_ms > 0.5);
        let mut pause = pause(period_ms, share);
        pause.jitter = jitter * (1.0 - share);
        let mut world = World::quiet(68.0, (0.03 * period_ms).clamp(2.0, 8.0)).with_pause(pause);
        if with_tick {
            world = world.with(250.0, 3_000.0);
        }
        world.seed = seed;
        assert_pause_comes_first(&world, pause);
    }
}
