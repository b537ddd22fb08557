//! Who else may end a run: Ctrl-C, and whoever closes standard input.

use std::io::{self, Read};
use std::thread;

/// Calls `end` at each Ctrl-C, and once when standard input is closed if that is asked for.
pub fn on_request(until_closed: bool, end: impl Fn() + Clone + Send + 'static) {
    // Refused only if another handler exists already; then a Ctrl-C ends the process.
    let _ = ctrlc::set_handler(end.clone());
    if until_closed {
        thread::spawn(move || {
            let mut ignored = [0; 256];
            // An error is an end as well: nobody can close it any more.
            while io::stdin().read(&mut ignored).is_ok_and(|count| count > 0) {}
            end();
        });
    }
}
