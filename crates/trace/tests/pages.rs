//! Pages: made here entry by entry, and one that a kernel wrote.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;

use proptest::prelude::*;
use stealtime_trace::format::PageFormat;
use stealtime_trace::page::{Entry, Missed, Page, PageError, used_bytes};
use stealtime_trace::row::{Kind, NO_NAME};
use stealtime_trace::rows::EventTable;

/// What stands in a page, as the kernel writes it (`kernel/trace/ring_buffer.c`).
#[derive(Debug, Clone)]
enum Written {
    Event { delta: u32, event: Vec<u8> },
    Extend(u64),
    Stamp(u64),
    TakenBack { delta: u32, bytes: usize },
}

const MAX_DELTA: u32 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

fn head(kind: u32, delta: u32) -> [u8; 4] {
    (delta << 5 | kind).to_le_bytes()
}

fn write_entry(data: &mut Vec<u8>, entry: &Written) {
    match entry {
        Written::Event { delta, event } if (1..=28).contains(&(event.len() / 4)) => {
            data.extend(head(u32::try_from(event.len() / 4).unwrap(), *delta));
            data.extend(event);
        }
        Written::Event { delta, event } => {
            data.extend(head(0, *delta));
            data.extend((u32::try_from(event.len()).unwrap() + 4).to_le_bytes());
            data.extend(event);
        }
        Written::Extend(delta) => write_time(data, 30, *delta),
        Written::Stamp(time) => write_time(data, 31, *time & ((1 << 59) - 1)),
        Written::TakenBack { delta, bytes } => {
            data.extend(head(29, *delta));
            data.extend((u32::try_from(*bytes).unwrap() + 4).to_le_bytes());
            data.extend(vec![0xee; *bytes]);
        }
    }
}

fn write_time(data: &mut Vec<u8>, kind: u32, time: u64) {
    data.extend(head(kind, u32::try_from(time & u64::from(MAX_DELTA)).unwrap()));
    data.extend(u32::try_from(time >> 27).unwrap().to_le_bytes());
}

fn page_of(start: u64, flags: u64, data: &[u8]) -> Vec<u8> {
    let mut page = start.to_le_bytes().to_vec();
    page.extend((data.len() as u64 | flags).to_le_bytes());
    page.extend(data);
    page
}

fn page_with(start: u64, entries: &[Written]) -> Vec<u8> {
    let mut data = Vec::new();
    for entry in entries {
        write_entry(&mut data, entry);
    }
    page_of(start, 0, &data)
}

/// The events and times of a page by the rules of the kernel, straight from what was written.
fn expected(start: u64, entries: &[Written]) -> Vec<(u64, Vec<u8>)> {
    let mut time = start;
    let mut events = Vec::new();
    for entry in entries {
        match entry {
            Written::Event { delta, event } => {
                time += u64::from(*delta);
                events.push((time, event.clone()));
            }
            Written::Extend(delta) => time += delta,
            Written::Stamp(stamp) => time = *stamp,
            Written::TakenBack { .. } => {}
        }
    }
    events
}

fn read(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let entries = Page::parse(page).unwrap().map(Result::unwrap);
    entries.map(|Entry { time, event }| (time, event.to_vec())).collect()
}

fn written() -> impl Strategy<Value = Written> {
    let words = prop_oneof![4 => 1_usize..29, 1 => 29_usize..80];
    prop_oneof![
        6 => (0..=MAX_DELTA, words, any::<u8>())
            .prop_map(|(delta, words, byte)| Written::Event { delta, event: vec![byte; 4 * words] }),
        1 => (0_u64..1 << 50).prop_map(Written::Extend),
        1 => (0_u64..1 << 58).prop_map(Written::Stamp),
        1 => (1..=MAX_DELTA, 0_usize..10).prop_map(|(delta, words)| Written::TakenBack { delta, bytes: 4 * words }),
    ]
}

proptest! {
    #[test]
    fn what_was_written_is_read(start in 0_u64..1 << 58, entries in prop::collection::vec(written(), 0..40)) {
        let page = page_with(start, &entries);
        prop_assert_eq!(read(&page), expected(start, &entries));
        prop_assert_eq!(used_bytes(&page), Ok(page.len()));
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(page) = Page::parse(&bytes) {
            let results: Vec<_> = page.collect();
            // An error ends a page.
            prop_assert!(results.iter().rev().skip(1).all(Result::is_ok));
        }
    }

    #[test]
    fn a_page_that_was_cut_gives_no_event_that_was_not_there(
        entries in prop::collection::vec(written(), 1..20), share in 0.0_f64..1.0,
    ) {
        let whole = page_with(7, &entries);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        let kept = ((whole.len() - 16) as f64 * share) as usize;
        let cut = page_of(7, 0, &whole[16..16 + kept]);
        let got: Vec<_> = Page::parse(&cut).unwrap().map_while(Result::ok).map(|entry| entry.time).collect();
        let times: Vec<_> = expected(7, &entries).into_iter().map(|(time, _)| time).collect();
        prop_assert!(times.starts_with(&got));
    }
}

#[test]
fn a_stamp_keeps_the_bits_that_it_has_no_room_for() {
    let start = (3 << 59) + 100;
    let event = Written::Event { delta: 5, event: vec![0; 4] };
    let later = [Written::Stamp((3 << 59) + 2000), event.clone()];
    assert_eq!(read(&page_with(start, &later))[0].0, (3 << 59) + 2005);
    // The low bits have run over since.
    let run_over = [Written::Stamp((4 << 59) + 20), event];
    assert_eq!(read(&page_with(start, &run_over))[0].0, (4 << 59) + 25);
}

#[test]
fn the_unused_end_of_a_page_holds_nothing() {
    let mut data = Vec::new();
    write_entry(&mut data, &Written::Event { delta: 1, event: vec![1; 8] });
    data.extend(head(29, 0));
    data.extend([0xff; 40]);
    assert_eq!(read(&page_of(10, 0, &data)).len(), 1);
}

#[test]
fn losses_before_a_page_are_told_with_their_number_if_there_was_room() {
    let mut data = Vec::new();
    write_entry(&mut data, &Written::Event { delta: 1, event: vec![1; 8] });
    let mut page = page_of(10, MISSED_EVENTS | MISSED_STORED, &data);
    assert_eq!(Page::parse(&page).unwrap_err(), PageError::Short { announced: 20, held: 12 });
    page.extend(1234_u64.to_le_bytes());
    page.extend([0; 100]);
    assert_eq!(Page::parse(&page).unwrap().missed, Missed::Count(1234));
    assert_eq!(used_bytes(&page), Ok(16 + data.len() + 8));
    assert_eq!(Page::parse(&page_of(10, MISSED_EVENTS, &data)).unwrap().missed, Missed::Unknown);
    assert_eq!(Page::parse(&page_of(10, 0, &data)).unwrap().missed, Missed::Nothing);
}

#[test]
fn an_entry_that_reaches_over_the_end_is_an_error() {
    let mut data = Vec::new();
    write_entry(&mut data, &Written::Event { delta: 1, event: vec![1; 8] });
    data.extend(head(28, 1));
    let page = page_of(10, 0, &data);
    let results: Vec<_> = Page::parse(&page).unwrap().collect();
    assert_eq!(results.len(), 2);
    assert_eq!(results[1], Err(PageError::Entry { at: 12 }));
}

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/trace");
    std::fs::read(folder.join(name)).unwrap()
}

fn golden_text(name: &str) -> String {
    String::from_utf8(golden(name)).unwrap()
}

/// A line of the kernel's own text: `name-pid [cpu] flags time: event: key=value key=value ==> key=value`.
struct Line<'a> {
    thread: i32,
    time: u64,
    event: &'a str,
    text: &'a str,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let (who, rest) = line.split_once(" [").unwrap();
        let thread = who.trim_end().rsplit_once('-').unwrap().1.parse().unwrap();
        let (left, rest) = rest.split_once(": ").unwrap();
        let time = left.rsplit_once(' ').unwrap().1.parse().unwrap();
        let (event, text) = rest.split_once(": ").unwrap();
        Self { thread, time, event, text }
    }

    fn word(&self, key: &str) -> &'a str {
        let from = self.text.find(&format!("{key}=")).unwrap() + key.len() + 1;
        // The name of a thread may hold blanks; the next key follows it.
        let rest = &self.text[from..];
        let end = rest.find('=').map_or(rest.len(), |next| rest[..next].rfind(' ').unwrap_or(rest.len()));
        rest[..end].trim_end_matches(" ==>").trim_end_matches(']').trim()
    }

    fn number(&self, key: &str) -> i64 {
        self.word(key).parse().unwrap()
    }
}

/// The page was read from `trace_pipe_raw` of a 6.18 kernel, the text from `trace` of the same buffer.
#[test]
fn a_page_of_a_kernel_becomes_what_the_kernel_prints() {
    let mut table = EventTable::default();
    let events = [
        "sched_switch",
        "sched_waking",
        "softirq_entry",
        "softirq_exit",
        "irq_handler_entry",
        "irq_handler_exit",
        "local_timer_entry",
        "local_timer_exit",
    ];
    for event in events {
        table.learn(event, &golden_text(&format!("{event}.format"))).unwrap();
    }
    let bytes = golden("page.bin");
    let format = PageFormat::parse(&golden_text("header_page")).unwrap();
    assert_eq!(format.page_bytes, bytes.len());
    let entries: Vec<Entry> = Page::parse(&bytes).unwrap().map(Result::unwrap).collect();
    let rows: Vec<_> = entries.into_iter().map(|entry| table.row(entry, 0).unwrap()).collect();
    assert!(rows.len() > 50, "{} rows", rows.len());
    let text = golden_text("kernel_text.txt");
    let names = table.names();
    let mut seen = std::collections::BTreeSet::new();
    for (row, line) in rows.iter().zip(text.lines()) {
        let line = Line::parse(line);
        seen.insert(row.kind);
        assert_eq!((row.time, row.thread), (line.time, line.thread), "{}", line.text);
        let name = names.get(row.name as usize).map_or("", String::as_str);
        match row.kind {
            Kind::Switch => {
                let state = ["R", "S", "D", "T", "t", "X", "Z", "P", "I"];
                let number = if row.value == 0 { 0 } else { row.value.trailing_zeros() as usize + 1 };
                assert_eq!(state[number], line.word("prev_state").trim_end_matches('+'));
                assert_eq!(name, line.word("next_comm"));
                assert_eq!(i64::from(row.other), line.number("next_pid"));
                assert_eq!(i64::from(row.priority), line.number("next_prio"));
            }
            Kind::Waking => {
                assert_eq!(name, line.word("comm"));
                assert_eq!(i64::from(row.other), line.number("pid"));
                assert_eq!(i64::from(row.priority), line.number("prio"));
                assert_eq!(row.value, line.number("target_cpu"));
            }
            Kind::SoftirqEntry | Kind::SoftirqExit => {
                assert_eq!(row.value, line.text[4..].split(' ').next().unwrap().parse::<i64>().unwrap());
                assert_eq!(name, line.word("action"));
                assert_eq!(row.kind == Kind::SoftirqEntry, line.event.ends_with("_entry"));
            }
            Kind::VectorEntry | Kind::VectorExit => {
                assert_eq!((row.value, name), (line.number("vector"), "local_timer"));
                assert_eq!(row.kind == Kind::VectorEntry, line.event.ends_with("_entry"));
            }
            Kind::InterruptEntry => assert_eq!((row.value, name), (line.number("irq"), line.word("name"))),
            Kind::InterruptExit => assert!(row.name != NO_NAME || row.value == line.number("irq")),
            other => panic!("no such event was recorded: {other:?}"),
        }
    }
    assert!(seen.len() >= 6, "{seen:?}");
}
