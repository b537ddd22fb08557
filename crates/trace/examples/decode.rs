//! How fast pages of the kernel become rows: `decode FOLDER MEBIBYTES`.
//!
//! FOLDER holds a page and descriptions of its events as a kernel gave them (`tests/golden/trace`). The page is spooled
//! over and over, later each time, for two CPUs. Prints `SECONDS BYTES EVENTS` of understanding it all.

use std::path::Path;
use std::time::Instant;

use stealtime_trace::page::{Page, used_bytes};
use stealtime_trace::rows::EventTable;
use stealtime_trace::spool::Spool;
use stealtime_trace::{Recorded, Row};

/// As the agent takes them.
const ROWS_AT_ONCE: usize = 1 << 16;

type Problem = Box<dyn std::error::Error>;

fn main() -> Result<(), Problem> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, mebibytes] = arguments.as_slice() else { return Err("usage: decode FOLDER MEBIBYTES".into()) };
    let bytes = mebibytes.parse::<usize>()? << 20;
    let mut table = EventTable::default();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "format") {
            let event = path.file_stem().and_then(|stem| stem.to_str()).ok_or("a file without a name")?;
            table.learn(event, &std::fs::read_to_string(&path)?)?;
        }
    }
    let page = std::fs::read(Path::new(folder).join("page.bin"))?;
    let used = used_bytes(&page)?;
    let pages = spooled(&page, used, bytes / 2 / used)?;
    let mut recorded = Recorded::new(pages, table, stealtime_wire::Facts::new(), Vec::new(), 0, "x86-tsc");
    let mut rows: Vec<Row> = Vec::with_capacity(ROWS_AT_ONCE);
    let began = Instant::now();
    while {
        rows.clear();
        recorded.take(ROWS_AT_ONCE, &mut rows)?
    } {}
    let elapsed_s = began.elapsed().as_secs_f64();
    #[expect(clippy::print_stdout, reason = "this is the result")]
    {
        println!("{elapsed_s} {} {}", 2 * (bytes / 2 / used) * used, recorded.events());
    }
    Ok(())
}

fn spooled(
    page: &[u8],
    used: usize,
    count: usize,
) -> Result<Vec<(u16, stealtime_trace::spool::SpooledPages)>, Problem> {
    let last = Page::parse(page)?.flatten().last().ok_or("the page is empty")?.time;
    let span = last - Page::parse(page)?.start + 1;
    let mut copy = page[..used].to_vec();
    let spool = |_cpu| {
        let mut spool = Spool::new(None)?;
        let mut time = last;
        for _ in 0..count {
            time += span;
            copy[..8].copy_from_slice(&time.to_le_bytes());
            spool.push(&copy, || 0, 0)?;
        }
        Ok::<_, Problem>(spool.rewind()?)
    };
    (0..2).map(spool).zip(0..).map(|(pages, cpu)| Ok((cpu, pages?))).collect()
}
