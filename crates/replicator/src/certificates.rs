//! When this host's certificates end: without them no link is made and nobody stands by, or the register is silent.

use std::time::Duration;

use stealtime_shipping::{CertificateEnd, Identity};

use crate::clock::{now, unix_ns};
use crate::spec::{RegisterSpec, Spec};
use crate::wording;

const LOOK_EVERY: Duration = Duration::from_secs(60);
const DAY_S: i64 = 24 * 3600;

/// From when on it is an alarm: time enough to make new ones.
const ALARM_DAYS: i64 = 30;

/// Looks into the files now and then: they are renewed while the machine runs, and taken up with the next link, and by
/// the register's client with its next call.
pub struct Certificates {
    watched: Vec<Watched>,
    look_at: Duration,
}

struct Watched {
    identity: Identity,
    /// What is not without it.
    lost: &'static str,
    end: Option<Result<CertificateEnd, String>>,
}

impl Certificates {
    /// Those that a member shows to other hosts and to its register.
    pub fn of(spec: &Spec) -> Self {
        let of_register = match &spec.register {
            RegisterSpec::Etcd { identity, .. } => identity.as_ref(),
            RegisterSpec::File(_) => None,
        };
        Self::of_both(spec.identity.as_ref(), of_register)
    }

    fn of_both(of_links: Option<&Identity>, of_register: Option<&Identity>) -> Self {
        let files = |identity: &Identity| (identity.ca.clone(), identity.certificate.clone(), identity.key.clone());
        let others = of_register.filter(|identity| of_links.map(files) != Some(files(identity)));
        let of_links = of_links.map(|identity| (identity, "no link is made"));
        let others = others.map(|identity| (identity, "the register does not answer"));
        let watched = of_links.into_iter().chain(others);
        let watched = watched.map(|(identity, lost)| Watched { identity: identity.clone(), lost, end: None });
        Self { watched: watched.collect(), look_at: Duration::ZERO }
    }

    pub fn look(&mut self) {
        if now() >= self.look_at {
            self.look_at = now() + LOOK_EVERY;
            for Watched { identity, end, .. } in &mut self.watched {
                *end = Some(identity.first_end().map_err(|error| wording::in_full(&error)));
            }
        }
    }

    /// How long all are good for, in seconds; negative: how long one has not been. None: there are none, or it is not
    /// known.
    pub fn left_s(&self) -> Option<i64> {
        self.first().map(|(end, _)| left_s(end))
    }

    /// What somebody must see to.
    pub fn alarm(&self) -> Option<String> {
        let unusable = self.watched.iter().filter_map(|watched| match &watched.end {
            Some(Err(reason)) => Some(format!("certificates cannot be used: {reason}; {} without", watched.lost)),
            _ => None,
        });
        let ends = self.first().and_then(|(end, lost)| in_words(end, left_s(end), lost));
        let texts: Vec<_> = unusable.chain(ends).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    fn first(&self) -> Option<(&CertificateEnd, &'static str)> {
        let known = self.watched.iter().filter_map(|watched| match &watched.end {
            Some(Ok(end)) => Some((end, watched.lost)),
            _ => None,
        });
        known.min_by_key(|(end, _)| end.unix_s)
    }
}

fn left_s(end: &CertificateEnd) -> i64 {
    end.unix_s.saturating_sub(i64::try_from(unix_ns() / 1_000_000_000).unwrap_or(i64::MAX))
}

fn in_words(end: &CertificateEnd, left_s: i64, lost: &str) -> Option<String> {
    let path = end.path.display();
    let follows = format!("{lost} without; make a new one with `stealtime protect identity`");
    match left_s.div_euclid(DAY_S) {
        days if days < 0 => Some(format!("the certificate {path} has ended: {follows}")),
        0 => Some(format!("the certificate {path} ends within a day: {follows}")),
        days if days <= ALARM_DAYS => Some(format!("the certificate {path} ends in {days} days: {follows}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn files(folder: &Path) -> Identity {
        let path = |name: &str| folder.join(name);
        Identity { ca: path("ca.pem"), certificate: path("b.pem"), key: path("b.key"), revoked: None }
    }

    /// Of which the certificate ends then, of another authority in each folder.
    fn identity(folder: &Path, ends: (i32, u8, u8)) -> Identity {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec!["b".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap();
        params.not_after = rcgen::date_time_ymd(ends.0, ends.1, ends.2);
        let certificate = params.self_signed(&key).unwrap();
        let identity = files(folder);
        fs::write(&identity.ca, authority.pem()).unwrap();
        fs::write(&identity.certificate, certificate.pem()).unwrap();
        fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }

    #[test]
    fn the_last_days_are_told_and_what_is_over() {
        let end = CertificateEnd { unix_s: 0, path: PathBuf::from("b.pem") };
        let begins = |left_s| in_words(&end, left_s, "no link").map(|text| text.split(':').next().unwrap().to_owned());
        assert_eq!(begins(31 * DAY_S), None);
        assert_eq!(begins(30 * DAY_S), Some("the certificate b.pem ends in 30 days".to_owned()));
        assert_eq!(begins(DAY_S - 1), Some("the certificate b.pem ends within a day".to_owned()));
        assert_eq!(begins(-1), Some("the certificate b.pem has ended".to_owned()));
    }

    #[test]
    fn without_certificates_there_is_nothing_to_tell() {
        let mut none = Certificates::of_both(None, None);
        none.look();
        assert_eq!((none.left_s(), none.alarm()), (None, None));
    }

    #[test]
    fn files_that_are_gone_are_an_alarm() {
        let gone = files(Path::new("/nowhere"));
        for both in [(Some(&gone), None), (None, Some(&gone))] {
            let mut certificates = Certificates::of_both(both.0, both.1);
            certificates.look();
            assert!(certificates.alarm().is_some_and(|text| text.contains("/nowhere/")));
            assert_eq!(certificates.left_s(), None);
        }
    }

    #[test]
    fn the_first_that_ends_is_told_whether_it_is_shown_to_hosts_or_to_the_register() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let late = identity(folders[0].path(), (4000, 1, 1));
        let ended = identity(folders[1].path(), (2001, 1, 1));
        for (both, lost) in
            [((&late, &ended), "the register does not answer without"), ((&ended, &late), "no link is made without")]
        {
            let mut certificates = Certificates::of_both(Some(both.0), Some(both.1));
            certificates.look();
            assert!(certificates.left_s().unwrap() < 0);
            let text = certificates.alarm().unwrap();
            assert!(text.contains(&ended.certificate.display().to_string()) && text.contains(lost), "{text}");
        }
        // The same files are told once.
        let mut both = Certificates::of_both(Some(&late), Some(&Identity { revoked: None, ..late.clone() }));
        both.look();
        assert_eq!((both.watched.len(), both.alarm()), (1, None));
        fs::write(&late.key, "").unwrap();
        both.look_at = Duration::ZERO;
        both.look();
        assert!(both.alarm().unwrap().contains(&late.key.display().to_string()));
    }
}
