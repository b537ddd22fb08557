//! Any bytes become events of a trace page or one typed error, and any event a row or none, and never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stealtime_trace::page::{Page, used_bytes};
use stealtime_trace::rows::EventTable;

const SWITCH: &str = include_str!("../../tests/golden/trace/sched_switch.format");
const INTERRUPT: &str = include_str!("../../tests/golden/trace/irq_handler_entry.format");
const SOFTIRQ: &str = include_str!("../../tests/golden/trace/softirq_entry.format");

fuzz_target!(|bytes: &[u8]| {
    let mut table = EventTable::default();
    for (event, description) in
        [("sched_switch", SWITCH), ("irq_handler_entry", INTERRUPT), ("softirq_entry", SOFTIRQ)]
    {
        table.learn(event, description).expect("a kernel's own description is understood");
    }
    let Ok(page) = Page::parse(bytes) else {
        assert!(used_bytes(bytes).is_err());
        return;
    };
    let used = used_bytes(bytes).expect("a page with a header has a length");
    let results: Vec<_> = page.collect();
    for (number, result) in results.iter().enumerate() {
        match result {
            Ok(entry) => drop(table.row(*entry, 0)),
            Err(_) => assert_eq!(number + 1, results.len(), "an error ends a page"),
        }
    }
    // What is kept of a page is worth as much as the page.
    let kept: Vec<_> = Page::parse(&bytes[..used]).expect("its header is the same").collect();
    assert_eq!(kept, results);
});
