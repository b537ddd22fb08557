//! What is told at the end, for people.

use std::io::{self, Write};

use stealtime_media::{Basis, Quartiles, Silence, Spread, StreamFigures};

use crate::rtp::report::{Conversation, Reception, Tail, Transmission};

/// More streams are not shown one by one, only those with the lowest scores.
const MOST_SHOWN: usize = 10;

/// Writes what there is to tell in lines for people.
pub trait Table {
    fn write_table(&self, output: &mut impl Write) -> io::Result<()>;
}

fn ms(ns: u64) -> f64 {
    ns as f64 * 1e-6
}

impl Table for Transmission {
    fn write_table(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(
            output,
            "sent {} packets in {} streams, {:.1} s; {} refused",
            self.sent,
            self.streams,
            ms(self.duration_ns) * 1e-3,
            self.refused
        )?;
        if let Some(Tail { median, p99, p999, max }) = self.lateness_ns {
            let [median, p99, p999, max] = [median, p99, p999, max].map(ms);
            writeln!(output, "sent late  {median:.3} / {p99:.3} / {p999:.3} / {max:.3} ms (median/p99/p99.9/max)")?;
        }
        if let Some(reception) = &self.came_back {
            writeln!(output, "what came back:")?;
            reception.write_table(output)?;
        }
        Ok(())
    }
}

impl Table for Reception {
    fn write_table(&self, output: &mut impl Write) -> io::Result<()> {
        let (total, counts) = (&self.total, &self.total.counts);
        writeln!(
            output,
            "heard {} streams of {}, {} to their end; {:.1} s",
            total.streams_heard,
            total.streams_announced,
            total.streams_closed,
            ms(self.duration_ns) * 1e-3
        )?;
        writeln!(
            output,
            "packets    sent {}, received {}, lost {} ({:.3} %), duplicated {}, reordered {}, late {}",
            counts.sent,
            counts.received,
            counts.lost,
            counts.lost_percent,
            counts.duplicated,
            counts.reordered,
            counts.late
        )?;
        if let (Some(basis), Some(delay)) = (total.delay_is, &total.delay_ns) {
            let Quartiles { min, q1, median, q3, max } = delay;
            let [min, q1, median, q3, max] = [min, q1, median, q3, max].map(|ns| ms(*ns));
            writeln!(
                output,
                "{:<10} {min:.3} / {q1:.3} / {median:.3} / {q3:.3} / {max:.3} ms (min/q1/median/q3/max)",
                word(basis)
            )?;
        }
        if let (Some(last), Some(most), Some(path)) =
            (total.jitter_last_ns, total.jitter_max_ns, total.path_jitter_max_ns)
        {
            writeln!(
                output,
                "jitter     {} ms at the end, {} at most; {} without the sender's own (RFC 3550; min/median/max of streams)",
                spread_ms(&last),
                spread_ms(&most),
                spread_ms(&path)
            )?;
        }
        if let (Some(silence), Some(stream)) = (&total.longest_silence, total.longest_silence_stream) {
            writeln!(output, "silence    {} in stream {stream}", silent(silence, self))?;
        }
        if let Some(silence) = &total.longest_silence_of_all {
            writeln!(output, "           {} in all streams together", silent(silence, self))?;
        }
        if let Some(Spread { min, median, max }) = total.mos {
            let buffer_ms = ms(self.buffer_ns);
            writeln!(
                output,
                "opinion    {min:.2} / {median:.2} / {max:.2} (MOS by ITU-T G.107, buffer {buffer_ms} ms; min/median/max)"
            )?;
        }
        write_streams(&self.streams, output)
    }
}

impl Table for Conversation {
    fn write_table(&self, output: &mut impl Write) -> io::Result<()> {
        self.spoken.write_table(output)?;
        writeln!(output, "what was heard:")?;
        self.heard.write_table(output)
    }
}

fn write_streams(streams: &[StreamFigures], output: &mut impl Write) -> io::Result<()> {
    let mut shown: Vec<&StreamFigures> = streams.iter().collect();
    if shown.is_empty() {
        return Ok(());
    }
    if shown.len() > MOST_SHOWN {
        shown.sort_by(|one, other| one.quality.mos.total_cmp(&other.quality.mos));
        shown.truncate(MOST_SHOWN);
        writeln!(output, "the {MOST_SHOWN} streams with the lowest scores:")?;
    }
    writeln!(
        output,
        "{:>6} {:>9} {:>7} {:>5} {:>6} {:>6} {:>10} {:>10} {:>9} {:>10} {:>5}",
        "stream", "sent", "lost", "dup", "reord", "late", "median ms", "max ms", "jitter ms", "silent ms", "MOS"
    )?;
    for stream in shown {
        let counts = &stream.counts;
        let delay = |of: fn(&Quartiles) -> u64| stream.delay_ns.as_ref().map_or(0.0, |delay| ms(of(delay)));
        writeln!(
            output,
            "{:>6} {:>9} {:>7} {:>5} {:>6} {:>6} {:>10.3} {:>10.3} {:>9.3} {:>10.3} {:>5.2}",
            stream.stream,
            counts.sent,
            counts.lost,
            counts.duplicated,
            counts.reordered,
            counts.late,
            delay(|delay| delay.median),
            delay(|delay| delay.max),
            stream.jitter_ns.map_or(0.0, |jitter| jitter.max * 1e-6),
            stream.longest_silence.map_or(0.0, |silence| ms(silence.length_ns)),
            stream.quality.mos
        )?;
    }
    Ok(())
}

fn word(basis: Basis) -> &'static str {
    match basis {
        Basis::OneWay => "one way",
        Basis::RoundTrip => "round trip",
        Basis::Variation => "variation",
    }
}

fn spread_ms(spread: &Spread) -> String {
    let [min, median, max] = [spread.min, spread.median, spread.max].map(|ns| ns * 1e-6);
    format!("{min:.3} / {median:.3} / {max:.3}")
}

fn silent(silence: &Silence, reception: &Reception) -> String {
    let after_s = ms(silence.start_monotonic_ns.saturating_sub(reception.started_monotonic_ns)) * 1e-3;
    let end = if silence.ended { "" } else { ", to the end," };
    format!("{:.3} ms from {after_s:.3} s on{end}", ms(silence.length_ns))
}
