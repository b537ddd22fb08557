//! A member that stands by tells Prometheus what is true of it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::json;
use stealtime_shipping::{Hello, Message, RamBlock, connect};

use crate::host_daemon::{Daemon, PATIENCE, hello};

/// Ask as Prometheus does, until somebody listens.
fn figures(port: u16) -> String {
    let began = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: b\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_standby_answers_on_the_port_that_its_machine_names() {
    let daemon = Daemon::start(None);
    daemon.have_qemu_answer();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut assignment = daemon.assignment();
    assignment["metrics_port"] = json!(port);
    let ram_blocks = vec![RamBlock { name: "pc.ram".to_owned(), bytes: 1 << 20 }];
    let hello = Hello { qemu_version: "7.2.0".to_owned(), ram_blocks, ..hello(assignment) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (sender, mut receiver) = connect(&daemon.endpoint, None).await.unwrap().split();
        sender.send(&Message::Hello(Box::new(hello))).await.unwrap();
        let answer = tokio::time::timeout(PATIENCE, receiver.receive()).await.expect("an answer").unwrap();
        assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
        // Its promise is counted while it is copied, but not used yet.
        assert!(daemon.member().join("promise.json").exists());
        let told = tokio::task::spawn_blocking(move || figures(port)).await.unwrap();
        assert!(told.starts_with("HTTP/1.1 200"), "{told}\n{}", daemon.log());
        let role = format!(r#"stealtime_protect_role{{vm="{}",host="b",mode="net",role="standby"}} 1"#, daemon.vm);
        assert!(told.contains(&role), "{told}");
        assert!(told.contains(r#"alarm="memory"} 0"#), "{told}");
        assert!(!told.contains("stealtime_protect_protected"), "{told}");
    });
}
