//! The E-model (ITU-T Recommendation G.107, 06/2015): from delay and loss to a rating, from a rating to a mean
//! opinion score.
//!
//! All its terms are computed, with the defaults of its table 2 for everything that a network does not decide
//! (loudness, noise, sidetone, echo). It is a model for planning, of the mean of many people's opinions: no
//! measurement of what anybody heard.

/// Equipment impairment of G.711: none, it is what others are held against (ITU-T G.113 appendix I, table I.1).
pub const IE_G711: f64 = 0.0;

/// How robust G.711 is against loss, with lost packets played as silence (ITU-T G.113 appendix I, table I.3).
pub const BPL_G711: f64 = 4.3;

/// The same with the concealment of G.711 appendix I (same table).
pub const BPL_G711_CONCEALED: f64 = 25.1;

/// The most that equipment can spoil (G.107 section 7.5).
const WORST_EQUIPMENT: f64 = 95.0;

// The defaults of G.107 table 2 (section 7.7).
const SEND_LOUDNESS_DB: f64 = 8.0;
const RECEIVE_LOUDNESS_DB: f64 = 2.0;
const SIDETONE_MASKING_DB: f64 = 15.0;
const LISTENER_SIDETONE_DB: f64 = 18.0;
const D_SEND: f64 = 3.0;
const TALKER_ECHO_LOUDNESS_DB: f64 = 65.0;
const WEIGHTED_ECHO_PATH_LOSS_DB: f64 = 110.0;
const QUANTIZING_DISTORTION_UNITS: f64 = 1.0;
const CIRCUIT_NOISE_DBM0P: f64 = -70.0;
const NOISE_FLOOR_DBMP: f64 = -64.0;
const ROOM_NOISE_SEND_DB: f64 = 35.0;
const ROOM_NOISE_RECEIVE_DB: f64 = 35.0;
/// Delay below this is not noticed by ordinary users (mT of G.107 table 1).
const NOTICED_DELAY_MS: f64 = 100.0;

/// What the network and the equipment do to a conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conversation {
    /// From mouth to ear (the T and Ta of G.107; Tr is twice that).
    pub one_way_ms: f64,
    /// Of the packets that should have been played.
    pub loss_percent: f64,
    /// See [`crate::LossRuns::burst_ratio`]. Losses that are spread more evenly than by chance count as by chance:
    /// G.107 has no value below 1.
    pub burst_ratio: f64,
    pub equipment_impairment: f64,
    pub loss_robustness: f64,
}

impl Conversation {
    /// G.711 with nothing lost and no delay.
    pub fn undisturbed() -> Self {
        Self {
            one_way_ms: 0.0,
            loss_percent: 0.0,
            burst_ratio: 1.0,
            equipment_impairment: IE_G711,
            loss_robustness: BPL_G711,
        }
    }
}

/// The rating R = Ro - Is - Id - Ie,eff; no advantage is granted (A = 0).
pub fn rating(conversation: &Conversation) -> f64 {
    let undelayed = basic_signal_to_noise_ratio() - simultaneous_impairment(0.0);
    undelayed - delay_impairment(conversation.one_way_ms) - loss_impairment(conversation)
}

/// The mean opinion score, conversational quality (G.107 annex B, formula B-4).
pub fn mos(rating: f64) -> f64 {
    if rating <= 0.0 {
        1.0
    } else if rating >= 100.0 {
        4.5
    } else {
        // Just above 0 the polynomial falls a little below the worst score that there is.
        (1.0 + 0.035 * rating + rating * (rating - 60.0) * (100.0 - rating) * 7e-6).max(1.0)
    }
}

/// Ie,eff (section 7.5).
pub fn loss_impairment(conversation: &Conversation) -> f64 {
    let ie = conversation.equipment_impairment;
    let loss = conversation.loss_percent.clamp(0.0, 100.0);
    if loss <= 0.0 {
        return ie;
    }
    let burst_ratio = conversation.burst_ratio.max(1.0);
    ie + (WORST_EQUIPMENT - ie) * loss / (loss / burst_ratio + conversation.loss_robustness)
}

/// Id (section 7.4) together with what delay adds to Is: talker echo, listener echo, and delay itself.
pub fn delay_impairment(one_way_ms: f64) -> f64 {
    let delay_ms = one_way_ms.max(0.0);
    let sidetone = simultaneous_impairment(delay_ms) - simultaneous_impairment(0.0);
    sidetone + talker_echo(delay_ms) + listener_echo(2.0 * delay_ms) + absolute_delay(delay_ms)
}

fn decibels(power: f64) -> f64 {
    10.0 * power.log10()
}

fn power(decibels: f64) -> f64 {
    10_f64.powf(decibels / 10.0)
}

/// No (section 7.2): all noise, as dBm0p.
fn noise() -> f64 {
    let overall_loudness = SEND_LOUDNESS_DB + RECEIVE_LOUDNESS_DB;
    let of_send_room = ROOM_NOISE_SEND_DB - SEND_LOUDNESS_DB - D_SEND - 100.0
        + 0.004 * (ROOM_NOISE_SEND_DB - overall_loudness - D_SEND - 14.0).powi(2);
    let effective_room = ROOM_NOISE_RECEIVE_DB + decibels(1.0 + power(10.0 - LISTENER_SIDETONE_DB));
    let of_receive_room = RECEIVE_LOUDNESS_DB - 121.0 + effective_room + 0.008 * (effective_room - 35.0).powi(2);
    let of_floor = NOISE_FLOOR_DBMP + RECEIVE_LOUDNESS_DB;
    decibels(power(CIRCUIT_NOISE_DBM0P) + power(of_send_room) + power(of_receive_room) + power(of_floor))
}

/// Ro (section 7.2).
fn basic_signal_to_noise_ratio() -> f64 {
    15.0 - 1.5 * (SEND_LOUDNESS_DB + noise())
}

/// Is (section 7.3): too loud, unsuitable sidetone, quantizing.
fn simultaneous_impairment(delay_ms: f64) -> f64 {
    let loudness = SEND_LOUDNESS_DB + RECEIVE_LOUDNESS_DB + 0.2 * (64.0 + noise() - RECEIVE_LOUDNESS_DB);
    let of_loudness = 20.0 * ((1.0 + (loudness / 8.0).powi(8)).powf(1.0 / 8.0) - loudness / 8.0);
    let sidetone = -decibels(power(-SIDETONE_MASKING_DB) + (-delay_ms / 4.0).exp() * power(-TALKER_ECHO_LOUDNESS_DB));
    let of_sidetone = 12.0 * (1.0 + ((sidetone - 13.0) / 6.0).powi(8)).powf(1.0 / 8.0)
        - 28.0 * (1.0 + ((sidetone + 1.0) / 19.4).powi(35)).powf(1.0 / 35.0)
        - 13.0 * (1.0 + ((sidetone - 3.0) / 33.0).powi(13)).powf(1.0 / 13.0)
        + 29.0;
    let q = 37.0 - 15.0 * QUANTIZING_DISTORTION_UNITS.log10();
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (basic_signal_to_noise_ratio() - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let of_quantizing = 15.0 * (1.0 + 10_f64.powf(y) + 10_f64.powf(z)).log10();
    of_loudness + of_sidetone + of_quantizing
}

/// Idte (section 7.4), for sidetone between 9 and 20 dB, which is the default's.
fn talker_echo(delay_ms: f64) -> f64 {
    let echo_loudness = TALKER_ECHO_LOUDNESS_DB - 40.0 * ((1.0 + delay_ms / 10.0) / (1.0 + delay_ms / 150.0)).log10()
        + 6.0 * (-0.3 * delay_ms * delay_ms).exp();
    let without_echo = -1.5 * (noise() - RECEIVE_LOUDNESS_DB);
    let with_echo = 80.0 + 2.5 * (echo_loudness - 14.0);
    let half = (without_echo - with_echo) / 2.0;
    (half + (half * half + 100.0).sqrt() - 1.0) * (1.0 - (-delay_ms).exp())
}

/// Idle (section 7.4).
fn listener_echo(round_trip_ms: f64) -> f64 {
    let with_echo = 10.5 * (WEIGHTED_ECHO_PATH_LOSS_DB + 7.0) * (round_trip_ms + 1.0).powf(-0.25);
    let half = (basic_signal_to_noise_ratio() - with_echo) / 2.0;
    half + (half * half + 169.0).sqrt()
}

/// Idd (section 7.4) with the default delay sensitivity (sT = 1).
fn absolute_delay(delay_ms: f64) -> f64 {
    if delay_ms <= NOTICED_DELAY_MS {
        return 0.0;
    }
    let x = (delay_ms / NOTICED_DELAY_MS).log2();
    let root = |of: f64| (1.0 + of.powi(6)).powf(1.0 / 6.0);
    25.0 * (root(x) - 3.0 * root(x / 3.0) + 2.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn g711(loss_percent: f64, loss_robustness: f64) -> Conversation {
        Conversation { loss_percent, loss_robustness, ..Conversation::undisturbed() }
    }

    /// G.107 section 7.7: with all defaults R = 93.2, which is a score of 4.41.
    #[test]
    fn the_defaults_give_the_published_rating() {
        let rating = rating(&Conversation::undisturbed());
        assert!((rating - 93.2).abs() < 0.05, "{rating}");
        assert!((mos(rating) - 4.41).abs() < 0.005, "{}", mos(rating));
    }

    /// G.107 annex B, table B.1 (G.109 table 1 has the same limits of its categories).
    #[test]
    fn scores_are_those_of_the_published_table() {
        for (rating, score) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            assert!((mos(rating) - score).abs() < 0.01, "R {rating}: {} for {score}", mos(rating));
        }
    }

    /// Cole and Rosenbluth, "Voice over IP performance monitoring", Computer Communication Review 31(2), 2001, fit
    /// the delay impairment of G.107 by two lines: 0.024 d + 0.11 (d - 177.3) above 177.3 ms.
    #[test]
    fn delay_costs_what_the_published_lines_say() {
        for delay_ms in (0..=350).step_by(10).map(f64::from) {
            let lines = 0.024 * delay_ms + 0.11 * (delay_ms - 177.3).max(0.0);
            let ours = delay_impairment(delay_ms);
            assert!((ours - lines).abs() < 1.2, "{delay_ms} ms: {ours} for {lines}");
        }
        // Where the lines were laid through the curve it is much nearer.
        assert!((delay_impairment(100.0) - 2.4).abs() < 0.5, "{}", delay_impairment(100.0));
        assert!((delay_impairment(300.0) - 20.7).abs() < 0.5, "{}", delay_impairment(300.0));
    }

    /// From the definitions of section 7.5: a loss of as many percent as Bpl costs half of what equipment can cost,
    /// and a burst ratio of 2 makes it as if Bpl were met by half the loss.
    #[test]
    fn loss_costs_what_its_robustness_says() {
        assert!((loss_impairment(&g711(4.3, BPL_G711)) - 47.5).abs() < 1e-9);
        assert!((loss_impairment(&g711(25.1, BPL_G711_CONCEALED)) - 47.5).abs() < 1e-9);
        let bursts = Conversation { burst_ratio: 2.0, ..g711(4.3, BPL_G711) };
        assert!((loss_impairment(&bursts) - 95.0 * 4.3 / (2.15 + 4.3)).abs() < 1e-9);
        let sparse = Conversation { burst_ratio: 0.5, ..g711(1.0, BPL_G711) };
        assert!((loss_impairment(&sparse) - 95.0 / 5.3).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn more_delay_or_loss_is_never_better(
            delay_ms in 0_f64..2000.0, more_ms in 0_f64..2000.0, loss in 0_f64..100.0, more in 0_f64..100.0,
            burst_ratio in 0.1_f64..10.0,
        ) {
            let one = Conversation { one_way_ms: delay_ms, burst_ratio, ..g711(loss, BPL_G711) };
            // Below a few milliseconds the echo term of G.107 falls by some hundredths before it rises.
            let slack = 0.2;
            let slower = Conversation { one_way_ms: delay_ms + more_ms, ..one };
            prop_assert!(rating(&slower) <= rating(&one) + slack);
            let lossier = Conversation { loss_percent: loss + more, ..one };
            prop_assert!(rating(&lossier) <= rating(&one) + 1e-9);
            prop_assert!((1.0..=4.5).contains(&mos(rating(&one))));
        }
    }
}
