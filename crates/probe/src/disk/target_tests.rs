use std::os::unix::fs::symlink;

use stealtime_wire::{DiskEngine, DiskOrder};

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("stealtime-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn disk(target: DiskTarget, operation: DiskOperation) -> Disk {
    Disk {
        target,
        operation,
        order: DiskOrder::Random,
        block_bytes: 4096,
        depth: 2,
        interval_ns: None,
        span_bytes: None,
        seed: 1,
        engine: None::<DiskEngine>,
    }
}

fn given(path: &str, overwrite: bool) -> DiskTarget {
    DiskTarget::Given { path: path.to_owned(), overwrite }
}

fn refusal(disk: &Disk) -> String {
    let error = open(disk).unwrap_err();
    assert!(error.hint().is_some(), "{error}");
    error.to_string()
}

#[test]
fn nothing_that_is_there_is_written_to_without_consent() {
    let folder = Folder::new("consent");
    let path = folder.file("precious", &[7; 16384]);
    let told = refusal(&disk(given(&path, false), DiskOperation::Write));
    assert!(told.contains("was not given up"), "{told}");
    let marked = DiskTarget::Marked { path: Some(path.clone()), device: None };
    let told = refusal(&disk(marked, DiskOperation::Write));
    assert!(told.contains("does not bear the mark"), "{told}");
    let target = open(&disk(given(&path, true), DiskOperation::Write)).unwrap();
    assert_eq!((target.first_byte, target.blocks), (0, 4));
    assert_eq!(fs::read(&path).unwrap(), [7; 16384], "opening writes nothing");
}

#[test]
fn what_is_no_file_or_disk_is_refused() {
    let folder = Folder::new("kinds");
    let told = |path: &str| refusal(&disk(given(path, false), DiskOperation::Read));
    assert!(told(&folder.0.to_string_lossy()).ends_with("is a folder"));
    assert!(told("/dev/null").ends_with("is neither a file nor a block device"));
    assert!(told("/nonexistent/disk").ends_with("does not exist"));
    let loops = folder.0.join("loops");
    symlink(&loops, &loops).unwrap();
    assert!(told(&loops.to_string_lossy()).contains("cannot be opened"));
}

#[test]
fn a_target_must_have_room_for_what_is_asked_for() {
    let folder = Folder::new("room");
    let path = folder.file("small", &[0; 8192]);
    let read = |change: fn(Disk) -> Disk| change(disk(given(&path, false), DiskOperation::Read));
    assert_eq!(open(&read(|disk| disk)).unwrap().blocks, 2);
    let told = refusal(&read(|disk| Disk { depth: 3, ..disk }));
    assert!(told.ends_with("has 8192 bytes to use, fewer than 3 blocks of 4096 bytes"), "{told}");
    let told = refusal(&read(|disk| Disk { span_bytes: Some(8193), ..disk }));
    assert!(told.ends_with("has 8192 bytes to use, fewer than the 8193 asked for"), "{told}");
    let told = refusal(&disk(
        DiskTarget::Scratch { folder: folder.0.to_string_lossy().into_owned(), bytes: 1 << 49 },
        DiskOperation::Write,
    ));
    assert!(told.contains("bytes free on its file system, fewer than the 562949953421312"), "{told}");
}

#[test]
fn a_scratch_file_is_whole_and_leaves_no_name() {
    let folder = Folder::new("scratch");
    let target = DiskTarget::Scratch { folder: folder.0.to_string_lossy().into_owned(), bytes: 1 << 20 };
    let target = open(&disk(target, DiskOperation::Write)).unwrap();
    assert_eq!((target.blocks, target.file.metadata().unwrap().len()), (256, 1 << 20));
    assert!(target.file.metadata().unwrap().blocks() * 512 >= 1 << 20, "no hole in it");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn reads_of_a_file_with_holes_are_told_of() {
    let folder = Folder::new("holes");
    let path = folder.file("sparse", &[]);
    File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let finding = open(&disk(given(&path, false), DiskOperation::Read)).unwrap().finding.unwrap();
    assert_eq!(finding.code, "target_sparse");
    assert!(open(&disk(given(&path, true), DiskOperation::Write)).unwrap().finding.is_none());
}

#[test]
fn a_marked_file_begins_behind_its_mark() {
    let folder = Folder::new("marked");
    let path = folder.0.join("disk.img");
    mark::make(&path, "virtio-blk", mark::FIRST_BYTE + 8192, 1).unwrap();
    let marked = DiskTarget::Marked { path: Some(path.to_string_lossy().into_owned()), device: None };
    let target = open(&disk(marked, DiskOperation::Write)).unwrap();
    assert_eq!((target.first_byte, target.blocks), (mark::FIRST_BYTE, 2));
}
