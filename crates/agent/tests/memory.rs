//! What would take more memory than there is, is refused before anything starts, with what limits it: the kernel would
//! not refuse it but kill.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn what_does_not_fit_is_refused_with_what_limits_it() {
    let refused: [(&[&str], &str); 7] = [
        (&["tick", "-p", "0", "--iterations", "9", "-D", "10000h", "-l", "1000000000000"], "1000000000000 samples"),
        (
            &["tick", "-p", "0", "-D", "10000h", "--inject-every", "1us", "--inject-steal", "10ns"],
            "the injected thefts",
        ),
        (&["rtload", "1us/100us", "--polluters", "1024", "--polluter-memory", "1GiB"], "1024 polluters of 1073741824"),
        (&["rtload", "10us/10ms", "-D", "10000h"], "the rows of 3600000000 jobs"),
        (
            &["contend", "-t", "4096", "-i", "4000000000", "--collection", "4KiB"],
            "the rows of 16384000000000 iterations",
        ),
        (&["load", "--kind", "memory", "--block", "1GiB", "-t", "256"], "no memory for 256 threads"),
        (&["counter", "--tcp", "127.0.0.1:0", "--memory", "262144GiB"], "no memory for the counter's"),
    ];
    for (arguments, what) in refused {
        let output = Command::new(env!("CARGO_BIN_EXE_stealtime-agent")).args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(error.contains(what), "{arguments:?}: {error}");
        assert_eq!(error.matches("may still be used by").count(), 1, "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}
