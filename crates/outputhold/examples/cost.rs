//! What a frame costs: reading it from QEMU's stream, holding it, letting it go.
//!
//! `cargo run --release -p stealtime-outputhold --example cost`. Prints the median of several rounds as CSV.

use std::io::Write;
use std::time::{Duration, Instant};

use etherparse::PacketBuilder;
use stealtime_outputhold::{BypassRules, Delivery, Hold, HoldLimits, OutputReader, Progress, Verdict};
use stealtime_succession::{Epoch, OutputPolicy};

const ROUNDS: usize = 301;
/// An epoch of 100 ms at 5,000 frames a second.
const FRAMES: usize = 500;

fn datagram(payload_bytes: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([0x52, 0x54, 0, 0, 0, 1], [0x52, 0x54, 0, 0, 0, 2])
        .ipv4([192, 0, 2, 1], [192, 0, 2, 2], 64)
        .udp(20_000, 20_000)
        .write(&mut frame, &vec![0; payload_bytes])
        .expect("the packet is small enough");
    frame
}

/// Nanoseconds a frame, of one epoch: read, accept, cut, acknowledge, release.
fn round(hold: &mut Hold, reader: &mut OutputReader, stream: &[u8], epoch: Epoch) -> f64 {
    let mut source = stream;
    let mut leaving_bytes = 0;
    let begin = Instant::now();
    while reader.fill(&mut source).is_ok_and(|count| count > 0) {
        while let Ok(Some(frame)) = reader.next_frame() {
            if hold.accept(frame, Duration::ZERO) == Verdict::Passes {
                leaving_bytes += frame.len();
                hold.count_passed(frame);
            }
        }
    }
    hold.cut(epoch, Duration::ZERO).expect("epochs rise");
    hold.acknowledge(epoch).expect("it was cut");
    let progress = hold.release(Duration::from_millis(50), |frame| {
        leaving_bytes += frame.len();
        Delivery::Delivered
    });
    let elapsed = begin.elapsed();
    assert!(matches!(progress, Progress::Finished(_)) && leaving_bytes > 0);
    elapsed.as_nanos() as f64 / FRAMES as f64
}

fn main() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "frame_bytes,rules,rounds,median_ns_per_frame,least_ns_per_frame,most_ns_per_frame")?;
    let rule = r#"{"protocol":"udp","source_port":"30000-40000","dscp":46}"#;
    for payload_bytes in [18, 172, 1472] {
        for rule_count in [0, 1, 8] {
            let rules = (0..rule_count).map(|_| rule.parse().expect("the rule is allowed")).collect();
            let mut hold = Hold::new(HoldLimits::default(), BypassRules::new(rules), OutputPolicy::Hold);
            let mut reader = OutputReader::default();
            let frame = datagram(payload_bytes);
            let prefix = u32::try_from(frame.len()).expect("a frame is short").to_be_bytes();
            let stream = [prefix.as_slice(), &frame].concat().repeat(FRAMES);
            let mut times_ns: Vec<f64> =
                (1..=ROUNDS as u64).map(|epoch| round(&mut hold, &mut reader, &stream, Epoch(epoch))).collect();
            times_ns.sort_by(f64::total_cmp);
            writeln!(
                output,
                "{},{rule_count},{ROUNDS},{:.0},{:.0},{:.0}",
                frame.len(),
                times_ns[ROUNDS / 2],
                times_ns[0],
                times_ns[ROUNDS - 1]
            )?;
        }
    }
    Ok(())
}
