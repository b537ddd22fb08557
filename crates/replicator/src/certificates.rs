//! When this host's certificates end: without them no link is made, and nobody stands by.

use std::time::Duration;

use stealtime_shipping::Identity;

use crate::clock::{now, unix_ns};

const LOOK_EVERY: Duration = Duration::from_secs(60);
const DAY_S: i64 = 24 * 3600;

/// From when on it is an alarm: time enough to make new ones, which are taken up with the next link.
const ALARM_DAYS: i64 = 30;

/// Looks into the files now and then: they are renewed while the machine runs.
pub struct Certificates {
    identity: Option<Identity>,
    look_at: Duration,
    /// Seconds since 1970, or why that is not known.
    ends_at: Option<Result<i64, String>>,
}

impl Certificates {
    /// Those of an identity; without one there are none.
    pub fn of(identity: Option<&Identity>) -> Self {
        Self { identity: identity.cloned(), look_at: Duration::ZERO, ends_at: None }
    }

    /// Look, if it is time to.
    pub fn look(&mut self) {
        if let Some(identity) = self.identity.as_ref().filter(|_| now() >= self.look_at) {
            self.look_at = now() + LOOK_EVERY;
            self.ends_at = Some(identity.ends_at_unix_s().map_err(|error| error.to_string()));
        }
    }

    /// How long they are good for, in seconds; negative: how long they have not been. None: there are none, or it is
    /// not known.
    pub fn left_s(&self) -> Option<i64> {
        let ends_at = self.ends_at.as_ref()?.as_ref().ok()?;
        Some(ends_at.saturating_sub(i64::try_from(unix_ns() / 1_000_000_000).unwrap_or(i64::MAX)))
    }

    /// What somebody must see to.
    pub fn alarm(&self) -> Option<String> {
        if let Some(Err(reason)) = &self.ends_at {
            return Some(format!("this host's certificates cannot be used: {reason}"));
        }
        in_words(self.left_s()?)
    }
}

fn in_words(left_s: i64) -> Option<String> {
    let renew = "no link is made without; make new ones with `stealtime protect identity`";
    match left_s.div_euclid(DAY_S) {
        days if days < 0 => Some(format!("a certificate of this host has ended: {renew}")),
        0 => Some(format!("a certificate of this host ends within a day: {renew}")),
        days if days <= ALARM_DAYS => Some(format!("a certificate of this host ends in {days} days: {renew}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_days_are_told_and_what_is_over() {
        let begins = |left_s: i64| in_words(left_s).map(|text| text.split(':').next().unwrap().to_owned());
        assert_eq!(begins(31 * DAY_S), None);
        assert_eq!(begins(30 * DAY_S), Some("a certificate of this host ends in 30 days".to_owned()));
        assert_eq!(begins(DAY_S - 1), Some("a certificate of this host ends within a day".to_owned()));
        assert_eq!(begins(-1), Some("a certificate of this host has ended".to_owned()));
    }

    #[test]
    fn without_certificates_there_is_nothing_to_tell() {
        let mut none = Certificates::of(None);
        none.look();
        assert_eq!((none.left_s(), none.alarm()), (None, None));
    }

    #[test]
    fn files_that_are_gone_are_an_alarm() {
        let path = |name: &str| std::path::PathBuf::from("/nowhere").join(name);
        let identity = Identity { ca: path("ca.pem"), certificate: path("b.pem"), key: path("b.key"), revoked: None };
        let mut gone = Certificates::of(Some(&identity));
        gone.look();
        assert!(gone.alarm().is_some_and(|text| text.contains("/nowhere/b.pem")));
        assert_eq!(gone.left_s(), None);
    }
}
