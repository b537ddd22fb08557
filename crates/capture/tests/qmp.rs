//! QMP byte by byte, against a scripted peer.

#![allow(clippy::unwrap_used)] // of what the test itself made up

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use stealtime_capture::{DeviceState, DeviceStateError, IgnoreSharedMigration, Notice, Qmp, QmpError, Shutdown, heed};

const GREETING: &str = r#"{"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 22}, "package": "Debian x"}, "capabilities": ["oob"]}}"#;
/// Long enough for any answer that will come.
const PATIENT: Duration = Duration::from_secs(60);
/// For answers that will not come.
const IMPATIENT: Duration = Duration::from_millis(50);

struct Script {
    lines: BufReader<UnixStream>,
    socket: UnixStream,
}

impl Script {
    /// The next line.
    fn object(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The next command's name and id.
    fn command(&mut self) -> (String, Value) {
        let command = self.object();
        (command["execute"].as_str().unwrap().to_owned(), command["id"].clone())
    }

    fn say(&mut self, line: &str) {
        self.socket.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }

    fn answer(&mut self, id: &Value, value: &Value) {
        self.say(&json!({"return": value, "id": id}).to_string());
    }
}

/// A connection, and a peer that follows `script` after the negotiation.
fn connect(script: impl FnOnce(&mut Script) + Send + 'static) -> (Qmp, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let peer = std::thread::spawn(move || {
        let mut peer = Script { lines: BufReader::new(theirs.try_clone().unwrap()), socket: theirs };
        peer.say(GREETING);
        let asked = peer.object();
        assert_eq!(asked["execute"], "qmp_capabilities");
        assert_eq!(asked["arguments"], json!({"enable": ["oob"]}), "QEMU is to read ahead");
        peer.answer(&asked["id"], &json!({}));
        script(&mut peer);
    });
    (Qmp::over(ours, PATIENT).unwrap(), peer)
}

#[test]
fn commands_sent_ahead_get_their_own_answers_in_any_order() {
    let (mut qmp, peer) = connect(|peer| {
        let (first, second) = (peer.command(), peer.command());
        assert_eq!((first.0.as_str(), second.0.as_str()), ("stop", "query-status"));
        peer.answer(&second.1, &json!({"status": "paused"}));
        peer.say(r#"{"event": "STOP", "timestamp": {}}"#);
        peer.answer(&first.1, &json!({}));
    });
    let stop = qmp.begin("stop", json!({})).unwrap();
    let status = qmp.begin("query-status", json!({})).unwrap();
    assert_eq!(qmp.finish(stop).unwrap(), json!({}));
    assert_eq!(qmp.finish(status).unwrap(), json!({"status": "paused"}));
    peer.join().unwrap();
    assert!(matches!(qmp.events(), Err(QmpError::Closed { .. })), "the peer has ended");
    assert_eq!(qmp.version(), "7.2.22 (Debian x)");
}

#[test]
fn a_loaded_command_is_read_before_it_is_begun_and_has_its_answer() {
    let (mut qmp, peer) = connect(|peer| {
        let mut early = [0; 21];
        peer.lines.read_exact(&mut early).unwrap();
        assert_eq!(&early, br#"{"id":2,"execute":"st"#);
        peer.socket.write_all(b"{\"event\": \"READ\"}\n").unwrap();
        let mut rest = String::new();
        peer.lines.read_line(&mut rest).unwrap();
        assert_eq!(rest, "op\"}\n");
        peer.answer(&json!(2), &json!({}));
        let again = peer.object();
        assert_eq!(again, json!({"id": 3, "execute": "stop", "arguments": {"x": 1}}));
        peer.answer(&json!(3), &json!({"x": 2}));
    });
    qmp.load("stop", json!({})).unwrap();
    qmp.wait_for_event("the peer has read it", |event| event.name == "READ").unwrap();
    assert_eq!(qmp.execute("stop", json!({})).unwrap(), json!({}));
    qmp.load("stop", json!({"x": 1})).unwrap();
    assert_eq!(qmp.execute("stop", json!({"x": 1})).unwrap(), json!({"x": 2}));
    peer.join().unwrap();
}

#[test]
fn a_loaded_command_is_not_carried_out_if_another_one_comes() {
    let (mut qmp, peer) = connect(|peer| {
        let refuse = |peer: &mut Script, name: &str| {
            let (unknown, id) = peer.command();
            assert_eq!(unknown, name);
            peer.say(&json!({"error": {"class": "CommandNotFound", "desc": "?"}, "id": id}).to_string());
        };
        for name in ["stop-unloaded", "cont-unloaded", "stop-unloaded"] {
            refuse(peer, name);
            if name == "stop-unloaded" {
                let (next, id) = peer.command();
                peer.answer(&id, &json!(next));
            }
        }
    });
    qmp.load("stop", json!({})).unwrap();
    assert_eq!(qmp.execute("quit", json!({})).unwrap(), "quit");
    qmp.load("cont", json!({})).unwrap();
    qmp.load("stop", json!({})).unwrap();
    assert_eq!(qmp.execute("stop", json!({"other": true})).unwrap(), "stop");
    peer.join().unwrap();
}

#[test]
fn a_refusal_carries_qemus_class_and_words() {
    let (mut qmp, peer) = connect(|peer| {
        let (_, id) = peer.command();
        peer.say(&json!({"error": {"class": "CommandNotFound", "desc": "no such command"}, "id": id}).to_string());
    });
    let refused = qmp.execute("fly", json!({})).unwrap_err();
    let QmpError::Refused { command, class, description } = &refused else { panic!("{refused}") };
    assert_eq!([command.as_str(), class, description], ["fly", "CommandNotFound", "no such command"]);
    peer.join().unwrap();
}

#[test]
fn events_are_kept_for_whoever_waits_for_them() {
    let (mut qmp, peer) = connect(|peer| {
        peer.say(r#"{"event": "RESUME", "timestamp": {}}"#);
        peer.say(r#"{"event": "MIGRATION", "data": {"status": "active"}, "timestamp": {}}"#);
        peer.say(r#"{"event": "MIGRATION", "data": {"status": "completed"}, "timestamp": {}}"#);
        // Stay until the other side has closed.
        let _ = peer.lines.read_line(&mut String::new());
    });
    let ended = qmp.wait_for_event("the end", |event| event.data["status"] == "completed").unwrap();
    assert_eq!(ended.name, "MIGRATION");
    let left: Vec<String> = qmp.events().unwrap().into_iter().map(|event| event.name).collect();
    assert_eq!(left, ["RESUME", "MIGRATION"]);
    assert_eq!(qmp.events().unwrap(), []);
    drop(qmp);
    peer.join().unwrap();
}

#[test]
fn why_qemu_ended_is_known_after_its_socket_closed_and_its_events_were_taken() {
    for (by_guest, reason) in [(true, "guest-shutdown"), (false, "host-signal")] {
        let (mut qmp, peer) = connect(move |peer| {
            peer.say(r#"{"event": "STOP", "timestamp": {}}"#);
            let _ = peer.lines.read_line(&mut String::new());
            let data = json!({"guest": by_guest, "reason": reason});
            peer.say(&json!({"event": "SHUTDOWN", "data": data, "timestamp": {}}).to_string());
        });
        assert_eq!(qmp.shutdown(), None, "it runs");
        qmp.load("stop", json!({})).unwrap();
        let told = qmp.execute("cont", json!({})).unwrap_err();
        assert!(matches!(told, QmpError::Closed { .. }), "{told}");
        let _ = qmp.events();
        assert_eq!(qmp.shutdown(), Some(Shutdown { by_guest, reason: reason.to_owned() }));
        peer.join().unwrap();
    }
}

#[test]
fn a_long_run_of_events_is_taken_off_the_queue() {
    const EPOCHS: usize = 20_000;
    let (mut qmp, peer) = connect(|peer| {
        for _ in 0..EPOCHS {
            let (_, id) = peer.command();
            peer.say(r#"{"event": "STOP", "timestamp": {}}"#);
            peer.say(r#"{"event": "RESUME", "timestamp": {}}"#);
            peer.answer(&id, &json!({}));
        }
        let _ = peer.lines.read_line(&mut String::new());
    });
    let mut heard = 0;
    for _ in 0..EPOCHS {
        qmp.execute("cont", json!({})).unwrap();
        heard += heed(&mut qmp, true).unwrap().len();
        assert_eq!(qmp.events().unwrap(), []);
    }
    assert_eq!(heard, 2 * EPOCHS);
    drop(qmp);
    peer.join().unwrap();
}

#[test]
fn a_guest_that_stands_by_itself_is_noticed_with_qemus_reason() {
    let (mut qmp, peer) = connect(|peer| {
        for (events, status) in
            [(&["GUEST_PANICKED"][..], ""), (&["RESET"], ""), (&["STOP"], "internal-error"), (&["STOP"], "paused")]
        {
            let (ready, id) = peer.command();
            assert_eq!(ready, "said");
            for event in events {
                let data = json!({"guest": true, "reason": "guest-reset"});
                peer.say(&json!({"event": event, "data": data, "timestamp": {}}).to_string());
            }
            peer.answer(&id, &json!({}));
            if !status.is_empty() {
                let (asked, id) = peer.command();
                assert_eq!(asked, "query-status");
                peer.answer(&id, &json!({"status": status, "running": false}));
            }
        }
        let (_, id) = peer.command();
        peer.say(r#"{"event": "STOP", "timestamp": {}}"#);
        peer.answer(&id, &json!({}));
        let _ = peer.lines.read_line(&mut String::new());
    });
    let mut next = |should_run| {
        qmp.execute("said", json!({})).unwrap();
        heed(&mut qmp, should_run).unwrap()
    };
    let told = |name: &str| Notice::Told { name: name.to_owned() };
    assert_eq!(next(true), [Notice::Panicked]);
    assert_eq!(next(true), [Notice::Reset]);
    assert_eq!(next(true), [told("STOP"), Notice::Stands { status: "internal-error".to_owned() }]);
    assert_eq!(next(true), [told("STOP")], "`cont` ends that");
    assert_eq!(next(false), [told("STOP")], "it was stopped on purpose");
    drop(qmp);
    peer.join().unwrap();
}

#[test]
fn no_answer_is_an_error_after_the_time_out() {
    let (mut qmp, peer) = connect(|peer| {
        let _ = peer.command();
        let _ = peer.lines.read_line(&mut String::new());
    });
    qmp.set_timeout(IMPATIENT);
    let silent = qmp.execute("stop", json!({})).unwrap_err();
    assert!(
        matches!(&silent, QmpError::TimedOut { waiting_for, waited } if waiting_for == "stop" && *waited == IMPATIENT)
    );
    drop(qmp);
    peer.join().unwrap();
}

#[test]
fn a_migration_that_stands_still_is_no_answer_either() {
    let (done, is_done) = mpsc::channel::<()>();
    let (mut qmp, peer) = connect(move |peer| {
        // `getfd` and `migrate`, which are not read: so the descriptor stays in the socket, and nothing comes over it.
        for id in [2, 3] {
            peer.answer(&json!(id), &json!({}));
        }
        let _ = is_done.recv();
    });
    let mut way = IgnoreSharedMigration::default();
    // Scripts answer late where much else is done; the stream says nothing however long.
    qmp.set_timeout(10 * IMPATIENT);
    way.begin_capture(&mut qmp).unwrap();
    let silent = way.finish_capture(&mut qmp).unwrap_err();
    assert!(
        matches!(&silent, DeviceStateError::Qmp(QmpError::TimedOut { waited, .. }) if *waited == 10 * IMPATIENT),
        "{silent:?}"
    );
    drop(done);
    peer.join().unwrap();
}

#[test]
fn a_closed_socket_is_named_after_what_was_awaited() {
    let (mut qmp, peer) = connect(|peer| {
        let _ = peer.command();
    });
    let closed = qmp.execute("stop", json!({})).unwrap_err();
    assert!(matches!(&closed, QmpError::Closed { waiting_for } if waiting_for == "stop"), "{closed}");
    peer.join().unwrap();
}

#[test]
fn what_is_no_qmp_is_refused() {
    for line in ["hello", "[]", "{}", r#"{"return":{}}"#] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(format!("{line}\n").as_bytes()).unwrap();
        let refused = Qmp::over(ours, PATIENT).err();
        assert!(matches!(&refused, Some(QmpError::Protocol { what }) if what == line), "{line}: {refused:?}");
    }
    let (mut qmp, peer) = connect(|peer| {
        let _ = peer.command();
        peer.say(r#"{"return": {}}"#);
    });
    assert!(matches!(qmp.execute("stop", json!({})), Err(QmpError::Protocol { .. })));
    peer.join().unwrap();
}
