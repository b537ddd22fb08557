//! What an independent simulator shows of what the analysis says, over many random sets.
//!
//! `judgement SETS FIRST_SEED`: a line `POLICY OVERHEADS SUPPLY` with counts for each kind of set, separated by tabs:
//! sets; accepted; contradictions; refused although no job was seen to miss; bounds; bounds reached; and of bounds
//! divided by the longest simulated response the median, 90th and 99th percentile in thousandths. Then, of 1,000 sets
//! for each utilization, how many are accepted under EDF: now, with interrupts as a slow-down, and how many kept all
//! deadlines in the simulator.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use rayon::prelude::*;
use stealtime_simulator::{Kernel, Random, Reservation, Scale};

#[allow(dead_code, reason = "the tests have more faults to show")]
#[path = "../tests/rigs/judging.rs"]
mod judging;

use judging::{Case, Fault};

#[derive(Clone, Debug, Default)]
struct Tally {
    sets: u64,
    accepted: u64,
    contradictions: u64,
    refused_unseen: u64,
    /// Bounds in thousandths of what was simulated.
    ratios: Vec<u64>,
    reached: u64,
}

impl Tally {
    fn add(mut self, other: Self) -> Self {
        self.sets += other.sets;
        self.accepted += other.accepted;
        self.contradictions += other.contradictions;
        self.refused_unseen += other.refused_unseen;
        self.reached += other.reached;
        self.ratios.extend(other.ratios);
        self
    }
}

type Kind = (&'static str, &'static str, &'static str);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let usage = "usage: judgement SETS FIRST_SEED";
    let (sets, first) = (arguments.next().context(usage)??, arguments.next().context(usage)??);
    let merged = (first..first + sets)
        .into_par_iter()
        .fold(BTreeMap::new, |mut all: BTreeMap<Kind, Tally>, seed| {
            for (kind, tally) in one(seed) {
                let sum = all.remove(&kind).unwrap_or_default();
                all.insert(kind, sum.add(tally));
            }
            all
        })
        .reduce(BTreeMap::new, |mut all, more| {
            for (kind, tally) in more {
                let sum = all.remove(&kind).unwrap_or_default();
                all.insert(kind, sum.add(tally));
            }
            all
        });
    let mut out = std::io::stdout().lock();
    for ((policy, overheads, supply), mut tally) in merged {
        tally.ratios.sort_unstable();
        let at = |percent: usize| tally.ratios.get(tally.ratios.len() * percent / 100).copied().unwrap_or(0);
        writeln!(
            out,
            "kind\t{policy}\t{overheads}\t{supply}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            tally.sets,
            tally.accepted,
            tally.contradictions,
            tally.refused_unseen,
            tally.ratios.len(),
            tally.reached,
            at(50),
            at(90),
            at(99)
        )?;
    }
    for percent in [70, 85, 95] {
        let (now, slowed, kept) = accepted_at(percent, 1_000);
        writeln!(out, "edf\t{percent}\t1000\t{now}\t{slowed}\t{kept}")?;
    }
    Ok(())
}

/// A set with its overheads and without, under both policies.
fn one(seed: u64) -> Vec<(Kind, Tally)> {
    let mut random = Random::new(seed);
    let drawn = Case::draw(&mut random, Scale::ALL[(seed % 4) as usize]);
    let mut bare = drawn.clone();
    bare.drawn.kernel = Kernel { tick_period: drawn.drawn.kernel.tick_period, ..Kernel::default() };
    let mut found = Vec::new();
    for (overheads, case) in [("with overheads", drawn), ("without", bare)] {
        for by_deadline in [false, true] {
            let case = Case { by_deadline, ..case.clone() };
            let supply = if case.drawn.reservation == Reservation::Whole { "whole CPU" } else { "share" };
            let policy = if by_deadline { "EDF" } else { "fixed priorities" };
            found.push(((policy, overheads, supply), tally(&case, &mut random)));
        }
    }
    found
}

fn tally(case: &Case, random: &mut Random) -> Tally {
    let ruling = case.analyse();
    let shown = case.show(&ruling, random);
    for text in &shown.contradictions {
        eprintln!("{text}\n{case:#?}\n{ruling:#?}");
    }
    let pairs = ruling.bounds.iter().zip(&shown.longest).filter(|&(_, &seen)| seen > 0);
    let bounded: Vec<(u64, u64)> = pairs.filter_map(|(bound, &seen)| Some(((*bound)?, seen))).collect();
    Tally {
        sets: 1,
        accepted: u64::from(ruling.accepted == Some(true)),
        contradictions: shown.contradictions.len() as u64,
        refused_unseen: u64::from(ruling.accepted == Some(false) && !shown.missed),
        reached: bounded.iter().filter(|(bound, seen)| bound == seen).count() as u64,
        ratios: bounded.iter().map(|(bound, seen)| bound * 1_000 / seen).collect(),
    }
}

/// Accepted now, with interrupts as a slow-down, and kept in the simulator.
fn accepted_at(percent: u32, sets: u64) -> (u64, u64, u64) {
    let judged = (0..sets).into_par_iter().map(|seed| {
        let mut random = Random::new(seed);
        let case = Case::ordinary(&mut random, percent);
        let (now, slowed) = (case.analyse(), case.analyse_with(Fault::SlowedDown));
        let shown = case.show(&now, &mut random);
        let yes = |accepted: Option<bool>| u64::from(accepted == Some(true));
        (yes(now.accepted), yes(slowed.accepted), u64::from(!shown.missed))
    });
    judged.reduce(|| (0, 0, 0), |one, other| (one.0 + other.0, one.1 + other.1, one.2 + other.2))
}
