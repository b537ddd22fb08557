//! What shipping costs: bytes per byte written, and processor time per GB, on the memory of a guest that
//! runs, or on pages made up for it.
//!
//! `cargo run --release -p stealtime-shipping --example shipping_cost -- [RAM_FILE [EPOCHS [INTERVAL_MS]]]`
//!
//! The RAM file is that of a running QEMU (`-object memory-backend-file,share=on`). Pages that differ from
//! the copy before are taken as written, so that no write tracker is needed. Copying is not timed; encoding
//! and staging are, by the processor time of this thread, so that a busy machine does not count.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use stealtime_shipping::{
    EncodeStatistics, EpochStager, EpochToShip, FrameDecoder, Message, PAGE_BYTES, PageEncoder, StagedPage,
    StagerLimits,
};
use stealtime_succession::{Epoch, Term};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Nanoseconds that this thread has run (`/proc/PID/schedstat`, proc(5)).
fn processor_ns() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?)
}

/// Where memory comes from, epoch by epoch.
enum Guest {
    File { path: String, interval: Duration },
    MadeUp(Vec<u8>),
}

impl Guest {
    fn next(&mut self, epoch: u64) -> Result<Vec<u8>> {
        match self {
            Self::File { path, interval } => {
                std::thread::sleep(*interval);
                Ok(std::fs::read(path)?)
            }
            Self::MadeUp(memory) => {
                change(memory, epoch);
                Ok(memory.clone())
            }
        }
    }
}

/// 64 MiB: a third zeros, a third text, a third noise.
fn made_up() -> Vec<u8> {
    let mut memory = vec![0; 64 << 20];
    let third = memory.len() / 3;
    let mut state = 1_u64;
    for (offset, byte) in memory.iter_mut().enumerate().skip(third) {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [.., high] = state.to_le_bytes();
        *byte = if offset < 2 * third { b"stealtime of a virtual cpu, in ns "[usize::from(high % 34)] } else { high };
    }
    memory
}

/// Counters in every ninth page; every hundredth is written anew.
fn change(memory: &mut [u8], epoch: u64) {
    for (index, page) in memory.chunks_mut(PAGE_BYTES).enumerate() {
        if index % 9 == 0 {
            for counter in [16, 24, 1024, 3000] {
                page[counter] = page[counter].wrapping_add(1);
            }
        }
        if index % 100 == 0 {
            let mut state = epoch.wrapping_mul(index as u64 + 1);
            for byte in page {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                [.., *byte] = state.to_le_bytes();
            }
        }
    }
}

#[derive(Default)]
struct Total {
    statistics: EncodeStatistics,
    encode_ns: u64,
    stage_ns: u64,
}

impl Total {
    #[allow(clippy::print_stdout, reason = "its figures are what it is for")]
    fn print(&self, name: &str) {
        let gigabytes = self.statistics.raw_bytes() as f64 / 1e9;
        let seconds_per_gigabyte = |ns: u64| ns as f64 / 1e9 / gigabytes;
        println!(
            "{name}: {} pages (zero {}, same {}, difference {}, raw {}), shipped/written {:.3}, processor s/GB: encode {:.2}, stage {:.2}",
            self.statistics.pages(),
            self.statistics.zero_pages,
            self.statistics.same_pages,
            self.statistics.delta_pages,
            self.statistics.raw_pages,
            self.statistics.shipped_bytes as f64 / self.statistics.raw_bytes() as f64,
            seconds_per_gigabyte(self.encode_ns),
            seconds_per_gigabyte(self.stage_ns),
        );
    }
}

/// The two ends of a link, and the standby's memory.
struct Pair {
    encoder: PageEncoder,
    stager: EpochStager,
    standby: Vec<u8>,
}

impl Pair {
    fn new(ram_bytes: usize, keeps_shadow: bool) -> Self {
        let pages = (ram_bytes / PAGE_BYTES) as u64;
        Self {
            encoder: PageEncoder::new(pages, keeps_shadow),
            stager: EpochStager::new(StagerLimits::new(pages), Term(1)),
            standby: vec![0; ram_bytes],
        }
    }

    fn ship(&mut self, epoch: u64, indices: &[u64], content: &[u8], total: &mut Total) -> Result<()> {
        let to_ship = EpochToShip {
            term: Term(1),
            epoch: Epoch(epoch),
            full: epoch == 1,
            indices,
            content,
            disks: &[],
            devices: b"none",
        };
        let mut frames = Vec::new();
        let before_ns = processor_ns()?;
        total.statistics += self.encoder.encode(&to_ship, &mut |frame| frames.push(frame))?;
        let encoded_ns = processor_ns()?;
        let mut decoder = FrameDecoder::default();
        let mut staged = None;
        for frame in &frames {
            decoder.feed(frame.as_bytes());
            while let Some(frame) = decoder.next_frame()? {
                staged = self.stager.accept(&Message::decode(frame)?, &self.standby)?;
            }
        }
        total.encode_ns += encoded_ns - before_ns;
        total.stage_ns += processor_ns()? - encoded_ns;
        let staged = staged.ok_or("the epoch has no end")?;
        for &index in indices {
            let page = &mut self.standby[usize::try_from(index)? * PAGE_BYTES..][..PAGE_BYTES];
            match staged.find(index) {
                Some(StagedPage::Zero) => page.fill(0),
                Some(StagedPage::Content(content)) => page.copy_from_slice(content),
                None => {}
            }
        }
        self.stager.recycle(staged);
        Ok(())
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |position: usize, default: u64| arguments.get(position).map_or(Ok(default), |text| text.parse());
    let (epochs, interval) = (number(1, 50)?, Duration::from_millis(number(2, 100)?));
    let mut guest = match arguments.first() {
        Some(path) => Guest::File { path: path.clone(), interval },
        None => Guest::MadeUp(made_up()),
    };
    let mut before = guest.next(0)?;
    let mut pairs = BTreeMap::from([true, false].map(|shadow| (shadow, Pair::new(before.len(), shadow))));
    let mut totals: BTreeMap<(bool, bool), Total> = BTreeMap::new();
    for epoch in 1..=epochs + 1 {
        let (indices, content) = if epoch == 1 {
            ((0..(before.len() / PAGE_BYTES) as u64).collect(), before.clone())
        } else {
            let after = guest.next(epoch)?;
            let pages = before.chunks(PAGE_BYTES).zip(after.chunks(PAGE_BYTES)).zip(0..);
            let written: Vec<_> = pages.filter(|((before, after), _)| before != after).collect();
            let indices: Vec<u64> = written.iter().map(|(_, index)| *index).collect();
            let content: Vec<u8> = written.iter().flat_map(|((_, after), _)| after.iter().copied()).collect();
            before = after;
            (indices, content)
        };
        for (&shadow, pair) in &mut pairs {
            pair.ship(epoch, &indices, &content, totals.entry((epoch > 1, shadow)).or_default())?;
        }
    }
    for ((later, shadow), total) in &totals {
        let which = if *later { "later epochs" } else { "first epoch" };
        total.print(&format!("{which}, {} a shadow", if *shadow { "with" } else { "without" }));
    }
    if pairs.values().any(|pair| pair.standby != before) {
        return Err("the standby does not have what the guest wrote".into());
    }
    Ok(())
}
