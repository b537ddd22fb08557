//! How etcd is asked: over HTTP, directly or not at all.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::TlsConfig;

use super::RegisterError;
use super::credentials::contents;
use super::etcd_config::EtcdLogin;

pub(super) const AUTHENTICATE: &str = "/v3/auth/authenticate";
pub(super) const RANGE: &str = "/v3/kv/range";
pub(super) const TRANSACTION: &str = "/v3/kv/txn";

const KEY_PREFIX: &str = "/stealtime/protect/";

pub(super) fn key_of(vm: &str) -> String {
    STANDARD.encode(format!("{KEY_PREFIX}{vm}"))
}

/// A linearizable read, which is what etcd does unless it is told otherwise.
pub(super) fn range_body(vm: &str) -> Value {
    json!({ "key": key_of(vm) })
}

pub(super) fn login_body(login: &EtcdLogin) -> Result<Value, RegisterError> {
    let password = contents(&login.password_file)?;
    let password = String::from_utf8_lossy(&password).trim_end_matches(['\n', '\r']).to_owned();
    Ok(json!({ "name": login.user, "password": password }))
}

pub(super) fn agent(tls: Option<TlsConfig>) -> Agent {
    // Proxies of the environment are for the web, and so is being sent elsewhere; what decides who is active is reached
    // directly or not at all.
    let mut builder = Agent::config_builder()
        .proxy(None)
        .max_redirects(0)
        // What etcd says of a refusal is in the body.
        .http_status_as_error(false);
    if let Some(tls) = tls {
        builder = builder.tls_config(tls);
    }
    builder.build().into()
}

pub(super) fn post_to(
    agent: &Agent,
    url: &str,
    token: Option<&str>,
    body: &Value,
    within: Duration,
) -> Result<(u16, String), ureq::Error> {
    let request = agent.post(url).config().timeout_global(Some(within)).build();
    let mut request = request.content_type("application/json");
    if let Some(token) = token {
        request = request.header("Authorization", token);
    }
    let mut response = request.send(body.to_string())?;
    let status = response.status().as_u16();
    Ok((status, response.body_mut().read_to_string()?))
}

/// How etcd words a refusal.
pub(super) fn refusal(status: u16, text: &str) -> String {
    let said = serde_json::from_str::<Value>(text)
        .ok()
        .and_then(|answer| answer["error"].as_str().or(answer["message"].as_str()).map(ToOwned::to_owned));
    format!("status {status}: {}", said.as_deref().unwrap_or(text))
}

/// Whether a URL is of this machine, whatever its names stand for elsewhere.
pub(super) fn is_on_loopback(endpoint: &str) -> bool {
    let address = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    let address = address.split(['/', '?', '#']).next().unwrap_or_default();
    // What stands before it is no host, whatever it looks like.
    if address.contains('@') {
        return false;
    }
    let host = match address.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or_default(),
        None => address.rsplit_once(':').map_or(address, |(host, _)| host),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_on_loopback() {
        for here in ["http://127.0.0.1:2379", "http://[::1]:2379/", "http://localhost", "http://127.9.9.9:1"] {
            assert!(is_on_loopback(here), "{here}");
        }
        for elsewhere in [
            "http://10.0.0.9:2379",
            "http://localhost.example:2379",
            "http://127.0.0.1.example:2379",
            "http://127.0.0.1@10.0.0.9:2379",
            "http://127.0.0.1:80@10.0.0.9",
            "http://[::1]@10.0.0.9",
            "http://10.0.0.9/127.0.0.1",
            "http://[2001:db8::1]:2379",
            "http://0.0.0.0:2379",
        ] {
            assert!(!is_on_loopback(elsewhere), "{elsewhere}");
        }
    }
}
