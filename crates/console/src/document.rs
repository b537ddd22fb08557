//! What the commands that need no control plane print and write alike.

use std::fs::File;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;
use stealtime_wire::{Finding, FindingLevel};

use crate::remarks;

/// The version of the JSON documents; it rises when a key changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// All crates of the agent's binary have this one.
pub const AGENT_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The exit code of what is over a threshold that was asked for, or has lost what it was to keep.
pub const OVER_THRESHOLD: u8 = 3;

/// The exit code of what was measured but may not be used.
pub const NOT_VALID: u8 = 4;

/// A file that was named on the command line, and is filled at the end.
pub struct RowFile {
    path: PathBuf,
    file: File,
}

impl RowFile {
    /// Makes it, if one was named. To be called first: a mistyped path should not cost an hour of measuring.
    pub fn create(path: Option<&Path>) -> Result<Option<Self>> {
        let create = |path: &Path| {
            let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
            Ok(Self { path: path.to_owned(), file })
        };
        path.map(create).transpose()
    }

    pub fn fill<Refusal>(self, rows: impl FnOnce(&mut BufWriter<File>) -> Result<(), Refusal>) -> Result<()>
    where
        Refusal: std::error::Error + Send + Sync + 'static,
    {
        let mut file = BufWriter::new(self.file);
        let incomplete = || format!("{} is not complete", self.path.display());
        rows(&mut file).with_context(incomplete)?;
        file.flush().with_context(incomplete)
    }
}

/// Says how a command ended, with all that was to be said and written at its end, in this order: figures first, then
/// files. What failed is told; it takes nothing with it that came before, and hides no threshold that was exceeded.
pub fn conclude<const N: usize>(verdict: ExitCode, steps: [Result<()>; N]) -> ExitCode {
    let mut code = verdict;
    for error in steps.into_iter().filter_map(Result::err) {
        // Whoever has stopped reading (`| head`) has seen enough: that is no failure.
        if is_broken_pipe(&error) {
            continue;
        }
        remarks::error(&error);
        if verdict != ExitCode::from(OVER_THRESHOLD) {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Whether nobody reads any more what was to be written.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let written = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let kind = written.or_else(|| cause.downcast_ref::<serde_json::Error>()?.io_error_kind());
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

/// Prints a document as JSON or as a text.
pub fn tell(
    json: bool,
    document: &impl Serialize,
    text: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<()>,
) -> Result<()> {
    let mut output = io::stdout().lock();
    let told = if json {
        serde_json::to_writer_pretty(&mut output, document).map_err(io::Error::from).and_then(|()| writeln!(output))
    } else {
        text(&mut output)
    };
    told.and_then(|()| output.flush()).context("the figures cannot be printed")
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
            agent_version: AGENT_VERSION,
            valid: reasons.is_empty(),
            reasons,
            limits: texts(findings, FindingLevel::Limits),
        }
    }
}

/// Prints a document that is JSON in any case.
pub fn print_json(document: &impl Serialize) -> Result<()> {
    tell(true, document, |_| Ok(()))
}

fn texts(findings: &[Finding], level: FindingLevel) -> Vec<String> {
    let of_level = findings.iter().filter(|finding| finding.level == level);
    of_level.map(|finding| finding.text.clone()).collect()
}

/// A finding in these words.
pub fn finding(code: &str, level: FindingLevel, text: String, hint: Option<&str>) -> Finding {
    Finding { code: code.to_owned(), level, text, hint: hint.map(str::to_owned) }
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
