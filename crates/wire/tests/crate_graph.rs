//! The contract of the workspace: who may depend on whom, and what may come from elsewhere.
//! `docs/architecture.md` says what each crate is for, `docs/decisions/2026-11-23-crate-graph.md` why this is
//! a test.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// Each crate of ours and those of ours that it stands on; from shared to special.
const MAY_USE: [(&str, &[&str]); 27] = [
    // Has no code.
    ("features", &[]),
    ("wire", &[]),
    ("owner", &[]),
    ("memory", &[]),
    ("analysis", &[]),
    ("attribution", &["wire"]),
    ("iopath", &["wire"]),
    ("overheads", &["wire"]),
    ("disk", &[]),
    ("extract", &["overheads", "wire"]),
    // What judges it shares no line with it; its tests alone use both.
    ("simulator", &[]),
    ("schedulability", &["simulator"]),
    ("trace", &["owner", "wire"]),
    ("probe", &["memory", "owner", "trace", "wire"]),
    ("media", &[]),
    ("console", &["wire"]),
    ("witness", &["console", "media", "memory", "probe", "wire"]),
    ("agent", &["analysis", "attribution", "console", "features", "media", "probe", "trace", "wire", "witness"]),
    (
        "core",
        &["analysis", "attribution", "extract", "features", "iopath", "overheads", "owner", "schedulability", "wire"],
    ),
    ("pagetrack", &[]),
    ("fpstate", &[]),
    ("sippsockets", &[]),
    ("capture", &["pagetrack"]),
    ("succession", &[]),
    ("shipping", &["disk", "succession"]),
    ("outputhold", &["succession"]),
    ("replicator", &["capture", "disk", "features", "memory", "outputhold", "shipping", "succession"]),
];

/// Licences that ask for no more than to be named. A crate with a choice needs one of them, with several all.
const LICENCES: [&str; 11] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
];

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    license: Option<String>,
    /// None for our own.
    source: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    path: Option<String>,
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        // Of other platforms nothing is built, so nothing need be fetched.
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Metadata>(&output.stdout).unwrap().packages
}

fn short(name: &str) -> &str {
    name.strip_prefix("stealtime-").unwrap_or(name)
}

/// An expression of SPDX, or two names with a slash, as older manifests have it. Only one level of brackets
/// is in use.
fn is_allowed(license: &str) -> bool {
    let choices = |all: &str| {
        let all = all.trim_matches(|bracket| bracket == '(' || bracket == ')').replace('/', " OR ");
        all.split(" OR ").any(|one| LICENCES.contains(&one.trim()))
    };
    license.split(" AND ").all(choices)
}

#[test]
fn each_crate_stands_on_those_that_the_contract_names() {
    let ours = packages().into_iter().filter(|package| package.source.is_none());
    let found: BTreeMap<String, BTreeSet<String>> = ours
        .map(|package| {
            let used = package.dependencies.iter().filter(|used| used.path.is_some());
            (short(&package.name).to_owned(), used.map(|used| short(&used.name).to_owned()).collect())
        })
        .collect();
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let contract = MAY_USE.into_iter().map(|(name, used)| (name.to_owned(), owned(used))).collect();
    assert_eq!(found, contract);
}

#[test]
fn what_others_wrote_comes_from_the_registry_under_an_allowed_licence() {
    let others = packages().into_iter().filter_map(|package| Some((package.source.clone()?, package)));
    let refused: Vec<String> = others
        .filter(|(source, package)| source != REGISTRY || !package.license.as_deref().is_some_and(is_allowed))
        .map(|(source, package)| format!("{} ({:?}) from {source}", package.name, package.license))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

/// What cargo builds of others, and with which features.
fn features(edges: &str, of: &[&str]) -> BTreeSet<(String, String)> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}"])
        .args(["--edges", edges])
        .args(of)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| line.split_once('|')).map(|(name, has)| (name.to_owned(), has.to_owned())).collect()
}

/// Set-up builds one program after the other, and then tests: a crate with other features would be built once more.
#[test]
fn programs_and_tests_build_what_they_share_with_the_same_features() {
    let programs: BTreeSet<_> = ["stealtime-core", "stealtime-replicator", "stealtime-agent"]
        .into_iter()
        .flat_map(|program| features("normal,build", &["--package", program]))
        .collect();
    assert!(programs.len() > 100, "{programs:?}");
    let mut built: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, has) in &programs {
        built.entry(name).or_default().insert(has);
    }
    built.retain(|_, has| has.len() > 1);
    assert!(built.is_empty(), "name these features in crates/features/Cargo.toml: {built:#?}");

    // A macro's own crates may also be built for a test that reads Rust: another set of features beside that of set-up.
    let tested = features("normal,build,dev", &["--workspace"]);
    // With what tests want of tokio, a program would look at a clock that can be stopped.
    let is_anew = |one: &(String, String)| !tested.contains(one) && !one.0.starts_with("tokio ");
    let anew: Vec<_> = programs.into_iter().filter(is_anew).collect();
    assert!(anew.is_empty(), "tests want more of these, so name it in crates/features/Cargo.toml: {anew:#?}");
}

/// A crate that is left out would be tested without its checks for overflow and assertions.
#[test]
fn each_crate_is_tested_with_its_checks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let manifest = fs::read_to_string(root).unwrap();
    let (_, tested) = manifest.split_once("[profile.bench.package]").unwrap();
    let checks = "debug-assertions = true, overflow-checks = true";
    for (name, _) in MAY_USE {
        let mut lines = tested.lines().filter(|line| line.starts_with(&format!("stealtime-{name} = ")));
        assert!(lines.next().is_some_and(|line| line.contains(checks)), "stealtime-{name} in [profile.bench.package]");
    }
}

#[test]
fn each_file_of_tests_is_in_the_program_that_has_all_of_its_crate() {
    for folder in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap() {
        let tests = folder.unwrap().path().join("tests");
        let Ok(program) = fs::read_to_string(tests.join("all.rs")) else { continue };
        for file in fs::read_dir(&tests).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "all") else { continue };
            assert!(program.contains(&format!("\nmod {module};\n")), "{name} of {} is not run", tests.display());
        }
    }
}

#[test]
fn a_licence_is_allowed_if_one_of_a_choice_is_and_each_of_several() {
    for license in ["MIT", "MIT/Apache-2.0", "GPL-3.0-only OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
        assert!(is_allowed(license), "{license}");
    }
    for license in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "(MIT OR Apache-2.0) AND GPL-3.0-only", ""] {
        assert!(!is_allowed(license), "{license}");
    }
}
