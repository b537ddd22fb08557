//! Who asks for metrics is a stranger, and must not be in the way of what protects the guest: a thread of ordinary
//! priority answers, some connections at a time, each for a bounded time. Others wait in the kernel's queue.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::thread_priority;

/// How many are answered at the same time.
const CONNECTIONS: usize = 8;

/// How long a connection may last.
pub const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Nobody can be accepted, as no descriptors are left: that may pass.
const PAUSE: Duration = Duration::from_millis(100);

const KIND: HeaderValue = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What is answered; else why nothing can be told now.
pub type Text = dyn Fn() -> Result<String, String> + Send + Sync;

/// Answer whoever asks, until the process ends.
pub fn serve(listener: TcpListener, text: Arc<Text>, answered_within: Duration) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answering = move || {
        thread_priority::reset();
        runtime.block_on(accept(listener, text, answered_within))
    };
    thread::Builder::new().name("metrics".to_owned()).spawn(answering).map(drop)
}

async fn accept(listener: TcpListener, text: Arc<Text>, answered_within: Duration) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // Nobody closes it.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let answering = answer(stream, Arc::clone(&text));
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(answered_within, answering).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    Ok(())
}

async fn answer(stream: TcpStream, text: Arc<Text>) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let is_asked = matches!(*request.method(), Method::GET | Method::HEAD);
        let (status, kind, body) = match is_asked.then(|| text()) {
            Some(Ok(text)) => (StatusCode::OK, KIND, text),
            Some(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{reason}\n")),
            None => (StatusCode::METHOD_NOT_ALLOWED, PLAIN, String::new()),
        };
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, kind);
        std::future::ready(Ok::<_, Infallible>(response))
    });
    // Who asked may be gone.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Instant;

    use super::*;

    fn server(answered_within: Duration) -> SocketAddr {
        server_of(|| Ok("stealtime_protect_term 7\n# EOF\n".to_owned()), answered_within)
    }

    fn server_of(
        text: impl Fn() -> Result<String, String> + Send + Sync + 'static,
        answered_within: Duration,
    ) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        serve(listener, Arc::new(text), answered_within).unwrap();
        address
    }

    fn ask(address: SocketAddr, method: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "{method} /metrics HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn who_asks_gets_the_text_and_its_kind() {
        let address = server(ANSWERED_WITHIN);
        let answer = ask(address, "GET");
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("# EOF\n"), "{answer}");
        assert!(answer.contains("application/openmetrics-text"), "{answer}");
        assert!(ask(address, "POST").starts_with("HTTP/1.1 405"), "nothing can be changed here");
    }

    #[test]
    fn who_asks_a_member_that_has_nothing_to_tell_hears_that_it_is_none() {
        let answer = ask(server_of(|| Err("it is stuck".to_owned()), ANSWERED_WITHIN), "GET");
        assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("it is stuck\n"), "{answer}");
    }

    #[test]
    fn who_says_nothing_keeps_neither_descriptors_nor_others_out() {
        let address = server(Duration::from_millis(500));
        let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = descriptors();
        let silent: Vec<_> = (0..64).map(|_| TcpStream::connect(address).unwrap()).collect();
        let began = Instant::now();
        let answer = ask(address, "GET");
        assert!(answer.ends_with("# EOF\n"), "{answer}");
        // All before it had their time: eight at once.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        assert!(descriptors() < before + silent.len() + 2 * CONNECTIONS, "those that wait take none here");
    }
}
