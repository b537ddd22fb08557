//! What a daemon of a host leaves when it is asked to end.

use crate::host_daemon::Daemon;

#[test]
fn a_daemon_that_is_asked_to_end_leaves_no_socket_and_no_note_of_itself() {
    for signal in ["INT", "TERM"] {
        let mut daemon = Daemon::start(None);
        std::fs::write(daemon.path("host.pid"), daemon.pid().to_string()).unwrap();
        assert!(daemon.path("host.sock").exists());
        assert_eq!(daemon.ask_to_end(signal), Some(0), "{}", daemon.log());
        for left in ["host.sock", "host.pid"] {
            assert!(!daemon.path(left).exists(), "{left} after {signal}");
        }
        assert!(daemon.path("host.json").exists());
        daemon.start_anew();
    }
}
