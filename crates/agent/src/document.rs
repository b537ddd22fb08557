//! What the commands that need no control plane print and write alike.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use arrow_schema::ArrowError;
use serde::Serialize;
use stealtime_wire::{Finding, FindingLevel};

/// The version of the JSON documents; it rises when a key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The exit code of what was measured but may not be used.
pub const NOT_VALID: u8 = 4;

/// Makes a file that was named on the command line.
pub fn create(path: &Path) -> Result<File> {
    File::create(path).with_context(|| format!("{} cannot be written", path.display()))
}

/// Fills a file that was made by [`create`].
pub fn fill(file: File, path: &Path, rows: impl FnOnce(&mut BufWriter<File>) -> Result<(), ArrowError>) -> Result<()> {
    let mut file = BufWriter::new(file);
    rows(&mut file).with_context(|| path.display().to_string())?;
    file.flush().with_context(|| path.display().to_string())
}

/// What every JSON document begins with.
#[derive(Serialize)]
pub struct Head {
    schema_version: u32,
    agent_version: &'static str,
    pub valid: bool,
    reasons: Vec<String>,
    limits: Vec<String>,
}

impl Head {
    pub fn of(findings: &[Finding]) -> Self {
        let reasons = texts(findings, FindingLevel::Invalidates);
        Self {
            schema_version: SCHEMA_VERSION,
            agent_version: env!("CARGO_PKG_VERSION"),
            valid: reasons.is_empty(),
            reasons,
            limits: texts(findings, FindingLevel::Limits),
        }
    }
}

pub fn print_json(document: &impl Serialize) -> Result<()> {
    let mut output = io::stdout().lock();
    serde_json::to_writer_pretty(&mut output, document)?;
    writeln!(output)?;
    Ok(())
}

fn texts(findings: &[Finding], level: FindingLevel) -> Vec<String> {
    let of_level = findings.iter().filter(|finding| finding.level == level);
    of_level.map(|finding| finding.text.clone()).collect()
}

pub fn write_findings(findings: &[Finding], output: &mut impl Write) -> io::Result<()> {
    for finding in findings {
        writeln!(output, "note: {}", finding.text)?;
        if let Some(hint) = &finding.hint {
            writeln!(output, "hint: {hint}")?;
        }
    }
    Ok(())
}
