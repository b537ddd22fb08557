//! Looking at all servers of etcd at the same time, twice: what they show tells whether they are of one cluster.

use std::thread;
use std::time::{Duration, Instant};

use ureq::Agent;

use super::answers::{Answer, Range, Sight, Token};
use super::cluster::Seen;
use super::etcd_config::EtcdLogin;
use super::requests::{AUTHENTICATE, RANGE};
use super::requests::{login_body, post_to, range_body, refusal};

/// Who is asked, and as whom.
pub(super) struct Survey<'a> {
    pub agent: &'a Agent,
    pub endpoints: &'a [String],
    pub token: Option<&'a str>,
    pub login: Option<&'a EtcdLogin>,
    pub vm: &'a str,
}

impl Survey<'_> {
    /// Ask all. Who is silent takes half of the time that is left, and not all: there is to be some for the call that
    /// waits for this.
    pub fn take(&self, deadline: Instant) -> Vec<Seen> {
        let all: Vec<_> = (0..self.endpoints.len()).collect();
        let first = self.look_at(&all, half_until(deadline));
        let alive: Vec<_> = all.into_iter().filter(|index| first[*index].is_ok()).collect();
        let mut second = self.look_at(&alive, half_until(deadline)).into_iter();
        first
            .into_iter()
            .map(|first| {
                let first = first?;
                Ok([first, second.next().unwrap_or_else(|| Err("it was not asked again".to_owned()))?])
            })
            .collect()
    }

    fn look_at(&self, whom: &[usize], within: Duration) -> Vec<Result<Sight, String>> {
        thread::scope(|scope| {
            let look = |index: &usize| {
                let endpoint = &self.endpoints[*index];
                thread::Builder::new().spawn_scoped(scope, move || self.look(endpoint, within))
            };
            // All are asked before one is waited for.
            let looks: Vec<_> = whom.iter().map(look).collect();
            let failed = || Err("it could not be asked".to_owned());
            looks
                .into_iter()
                .map(|look| {
                    look.map_or_else(|error| Err(error.to_string()), |it| it.join().unwrap_or_else(|_| failed()))
                })
                .collect()
        })
    }

    /// Read the record at one server.
    fn look(&self, endpoint: &str, within: Duration) -> Result<Sight, String> {
        let deadline = Instant::now() + within;
        let read = |token: Option<&str>, until| self.post::<Range>(endpoint, RANGE, token, &range_body(self.vm), until);
        let half = Instant::now() + within / 2;
        let answer = match self.login {
            None => read(self.token, deadline)??,
            Some(login) => {
                if let Ok(Ok(answer)) = read(self.token, half) {
                    answer
                } else {
                    // Another cluster does not know the token, and may let the user in all the same. It refuses the
                    // token, or waits for as many changes of its own as that was made after (etcd 3.4,
                    // `isValidSimpleToken`).
                    let body = login_body(login).map_err(|error| error.to_string())?;
                    let Token { token } = self.post(endpoint, AUTHENTICATE, None, &body, deadline)??;
                    read(Some(&token), deadline)??
                }
            }
        };
        answer.sight(self.vm).ok_or_else(|| "it shows nothing".to_owned())
    }

    /// Within: what it answered, or how it refused.
    fn post<A: Answer>(
        &self,
        endpoint: &str,
        path: &str,
        token: Option<&str>,
        body: &serde_json::Value,
        deadline: Instant,
    ) -> Result<Result<A, String>, String> {
        let within = deadline.saturating_duration_since(Instant::now());
        if within.is_zero() {
            return Err("it did not answer in time".to_owned());
        }
        match post_to(self.agent, &format!("{endpoint}{path}"), token, body, within) {
            Ok((200, text)) => {
                serde_json::from_str(&text).map(Ok).map_err(|error| format!("no answer of etcd: {error}"))
            }
            Ok((status, text)) if (400..500).contains(&status) => Ok(Err(refusal(status, &text))),
            Ok((status, text)) => Err(refusal(status, &text)),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn half_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()) / 2
}
