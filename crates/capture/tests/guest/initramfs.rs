//! The guest's initramfs: our `/init` and the modules of its network card, as a cpio archive.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The guest's program, compiled once for all tests of a process.
static INIT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::Builder::new().prefix("stealtime-capture-").tempdir().unwrap();
    let init = folder.path().join("init");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/init.rs");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let options = ["--edition=2024", "-Copt-level=2", "-Ctarget-feature=+crt-static", "-o"];
    let compiled = Command::new(compiler).args(options).arg(&init).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    std::fs::read(init).unwrap()
});

/// Pack the guest's program with the modules it needs; gives the archive.
pub fn build(modules_folder: Option<&Path>, folder: &Path) -> PathBuf {
    let mut archive = Archive::default();
    for name in ["proc", "sys", "dev"] {
        archive.add(name, 0o040_755, &[]);
    }
    archive.add("init", 0o100_755, &INIT);
    let mut listing = String::new();
    for (number, module) in modules(modules_folder, &["virtio_pci", "virtio_net", "virtio_rng"]).iter().enumerate() {
        let name = format!("{number}.ko");
        archive.add(&name, 0o100_644, &std::fs::read(module).unwrap());
        writeln!(listing, "/{name}").unwrap();
    }
    archive.add("modules", 0o100_644, listing.as_bytes());
    archive.add("TRAILER!!!", 0, &[]);
    let path = folder.join("initramfs.cpio");
    std::fs::write(&path, archive.bytes).unwrap();
    path
}

/// The module files, each after what it needs; what is not in `modules.dep` is built in.
fn modules(folder: Option<&Path>, wanted: &[&str]) -> Vec<PathBuf> {
    let Some(folder) = folder else { return Vec::new() };
    let text = std::fs::read_to_string(folder.join("modules.dep")).unwrap();
    let mut needs: HashMap<String, Vec<&str>> = HashMap::new();
    for (module, others) in text.lines().filter_map(|line| line.split_once(':')) {
        let name = Path::new(module).file_stem().unwrap().to_string_lossy().replace('-', "_");
        needs.insert(name, others.split_whitespace().rev().chain([module]).collect());
    }
    let mut paths = Vec::new();
    for file in wanted.iter().filter_map(|name| needs.get(*name)).flatten() {
        let path = folder.join(file);
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// The "newc" format (Linux, Documentation/driver-api/early-userspace/buffer-format.rst).
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    inode: usize,
}

impl Archive {
    fn add(&mut self, name: &str, mode: usize, content: &[u8]) {
        self.inode += 1;
        let fields = [self.inode, mode, 0, 0, 1, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
        let header = fields.iter().fold("070701".to_owned(), |mut text, field| {
            write!(text, "{field:08x}").unwrap();
            text
        });
        for part in [format!("{header}{name}\0").as_bytes(), content] {
            self.bytes.extend_from_slice(part);
            self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        }
    }
}
