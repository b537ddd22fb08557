//! A real guest is checkpointed, killed, and goes on in a standby from the last epoch.

#![allow(clippy::unwrap_used)] // of what the test itself made up

mod guest;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use guest::frames::Peer;
use guest::{Lab, MEMORY_BYTES};
use stealtime_capture::{
    DeviceState, DeviceStateKind, Guest, GuestError, PageRange, QemuUser, StagedPages, TrackerKind, Virtio, count_pages,
};

/// How many epochs each failover comes after, unless `STEALTIME_CAPTURE_EPOCHS` says otherwise.
const EPOCHS: usize = 60;

/// Longer runs look for a page that is missed once in thousands of epochs.
fn epochs() -> usize {
    std::env::var("STEALTIME_CAPTURE_EPOCHS").map_or(EPOCHS, |text| text.parse().expect("a number of epochs"))
}

/// Pages of one part of the full copy, and how often what was written meanwhile is copied before the first epoch.
const PART_PAGES: u64 = 2048;
const ROUNDS: usize = 3;

/// Takes epochs of a guest into the memory of a standby, and compares all memory after each.
struct Protection {
    devices: Box<dyn DeviceState>,
    staged: StagedPages,
    splits: Vec<[Duration; 5]>,
    pages: Vec<u64>,
    /// What KVM had counted at the end of each epoch; empty without KVM.
    faults: Vec<u64>,
}

impl Protection {
    /// The first, full copy, of a guest that runs, and what it wrote meanwhile.
    fn begin(primary: &mut Guest, standby: &Guest, kind: DeviceStateKind) -> Self {
        assert_eq!(primary.refused_trackers, [], "the tracker that is wanted must work here");
        assert_eq!(standby.ram.populated().unwrap(), [], "a standby must not write its memory");
        let devices = primary.device_state(kind).unwrap();
        let mut protection =
            Self { devices, staged: StagedPages::default(), splits: Vec::new(), pages: Vec::new(), faults: Vec::new() };
        primary.tracked.arm().unwrap();
        let total = primary.ram.len_pages();
        for first in (0..total).step_by(usize::try_from(PART_PAGES).unwrap()) {
            let part = PageRange { first, count: PART_PAGES.min(total - first) };
            protection.take(primary, standby, &[part]);
        }
        // As in the replicator: the guest stands only if the tracker needs it.
        let stops = primary.tracked.collects_at_standstill_only();
        for _ in 0..ROUNDS {
            let mut written = Vec::new();
            if stops {
                primary.qmp.execute("stop", serde_json::json!({})).unwrap();
            }
            primary.tracked.collect(&mut written).unwrap();
            if stops {
                primary.resume().unwrap();
            }
            protection.take(primary, standby, &written);
        }
        protection
    }

    fn take(&mut self, primary: &mut Guest, standby: &Guest, ranges: &[PageRange]) {
        self.staged.clear();
        primary.tracked.stage(ranges, &mut self.staged).unwrap();
        self.apply(standby);
    }

    /// One epoch; gives the state of the devices at its end.
    fn capture(&mut self, primary: &mut Guest, standby: &Guest) -> Vec<u8> {
        let mut written: Vec<PageRange> = Vec::new();
        let mut marks = vec![Instant::now()];
        let stop = primary.qmp.begin("stop", serde_json::json!({})).unwrap();
        self.devices.begin_capture(&mut primary.qmp).unwrap();
        primary.qmp.finish(stop).unwrap();
        marks.push(Instant::now());
        let state = self.devices.finish_capture(&mut primary.qmp).unwrap();
        marks.push(Instant::now());
        primary.tracked.collect(&mut written).unwrap();
        marks.push(Instant::now());
        self.staged.clear();
        primary.tracked.stage(&written, &mut self.staged).unwrap();
        marks.push(Instant::now());
        self.apply(standby);
        assert_eq!(differing(primary, standby), [0; 0], "pages differ that the tracker did not tell");
        let before_cont = Instant::now();
        primary.resume().unwrap();
        let cont = before_cont.elapsed();
        let between = |index: usize| marks[index + 1] - marks[index];
        self.splits.push([between(0), between(1), between(2), between(3), cont]);
        self.pages.push(count_pages(&written));
        self.faults.extend(kvm_page_faults(primary.process().pid()));
        state
    }

    fn apply(&mut self, standby: &Guest) {
        for (index, page) in self.staged.iter() {
            standby.ram.write_page(index, page).unwrap();
        }
    }

    fn print_splits(&self) {
        for (part, name) in ["stop", "save", "scan", "copy", "cont"].iter().enumerate() {
            let mut times: Vec<Duration> = self.splits.iter().map(|split| split[part]).collect();
            times.sort_unstable();
            eprintln!("{name}: median {:?}, max {:?}", times[times.len() / 2], times[times.len() - 1]);
        }
        let mut pauses: Vec<Duration> = self.splits.iter().map(|split| split.iter().sum()).collect();
        pauses.sort_unstable();
        let mut pages = self.pages.clone();
        pages.sort_unstable();
        eprintln!("pause: median {:?}; pages: median {}", pauses[pauses.len() / 2], pages[pages.len() / 2]);
        let mut faults: Vec<u64> = self.faults.windows(2).map(|pair| pair[1] - pair[0]).collect();
        faults.sort_unstable();
        if let Some(median) = faults.get(faults.len() / 2) {
            eprintln!("page faults that KVM handled: median {median} an epoch");
        }
        // Any missed page has ended the test before this line.
        eprintln!("{} epochs, {} pages written, 0 missed", pages.len(), pages.iter().sum::<u64>());
    }
}

/// How many page faults KVM has handled for the guest of this process (debugfs, `pf_taken`), if it has any of KVM's.
fn kvm_page_faults(pid: u32) -> Option<u64> {
    let machines = std::fs::read_dir("/sys/kernel/debug/kvm").ok()?;
    let ours = machines.flatten().find(|one| one.file_name().to_string_lossy().starts_with(&format!("{pid}-")))?;
    std::fs::read_to_string(ours.path().join("pf_taken")).ok()?.trim().parse().ok()
}

/// The pages that two guests do not have in common; both stand still.
fn differing(one: &Guest, other: &Guest) -> Vec<u64> {
    let mut page = Vec::new();
    let differs = |&index: &u64| {
        page.clear();
        one.ram.copy_page_into(index, &mut page).unwrap();
        !other.ram.page_equals(index, page.first_chunk().unwrap()).unwrap()
    };
    (0..one.ram.len_pages()).filter(differs).collect()
}

fn fail_over(vcpus: u32, kind: DeviceStateKind, virtio: Virtio, tracker: TrackerKind) {
    let mut lab = Lab::new(vcpus);
    lab.spec.virtio = virtio;
    lab.tracker = Some(tracker);
    let (primary_peer, netdev) = Peer::pair();
    let mut primary = lab.boot("primary", netdev);
    let (mut standby_peer, netdev) = Peer::pair();
    let mut standby = lab.standby("standby", netdev);
    primary.resume().unwrap();
    let booted = primary_peer.wait_for("20 rounds", |beat| beat.round >= 20);
    assert_eq!(booted.vcpus, u64::from(vcpus));

    let mut protection = Protection::begin(&mut primary, &standby, kind);
    let mut state = Vec::new();
    let mut seen = booted;
    for _ in 0..epochs() {
        // An epoch in which the guest has done something: what it sent before is of no interest.
        seen = primary_peer.newest().unwrap_or(seen);
        seen = primary_peer.wait_for("the next round", |beat| beat.round > seen.round);
        state = protection.capture(&mut primary, &standby);
    }
    protection.print_splits();
    assert!(protection.pages.iter().all(|&pages| pages > 0), "{:?}", protection.pages);
    let committed = seen;
    primary.kill().unwrap();

    let begun = Instant::now();
    standby.load_and_resume(&state).unwrap();
    eprintln!("running after {:?}; state of {} bytes", begun.elapsed(), state.len());
    let first = standby_peer.wait_for("anything", |_| true);
    assert_eq!(first.boot, committed.boot, "the guest must go on, not boot");
    assert!(first.round >= committed.round, "{first:?} is before what was committed, {committed:?}");
    // Long enough for each page to be looked at again.
    let rounds = first.round + 100;
    let later = standby_peer.wait_for("100 further rounds", |beat| beat.round >= rounds);
    assert_eq!(later.corrupt_pages, 0, "{}", lab.console("standby"));

    standby_peer.send_reboot();
    let rebooted = standby_peer.wait_for("another boot", |beat| beat.boot != committed.boot && beat.round >= 20);
    assert_eq!((rebooted.corrupt_pages, rebooted.vcpus), (0, u64::from(vcpus)));
    for name in ["primary", "standby"] {
        assert!(!lab.console(name).contains("CORRUPT"), "{}", lab.console(name));
    }
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL"]
fn a_guest_with_one_cpu_goes_on_in_the_standby_and_reboots() {
    fail_over(1, DeviceStateKind::XenSave, Virtio::Legacy, TrackerKind::Userfault);
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL"]
fn a_guest_with_two_cpus_goes_on_in_the_standby_and_reboots() {
    fail_over(2, DeviceStateKind::XenSave, Virtio::Transitional, TrackerKind::Userfault);
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL"]
fn the_state_of_a_migration_that_ignores_shared_memory_does_as_well() {
    fail_over(2, DeviceStateKind::IgnoreShared, Virtio::Legacy, TrackerKind::Userfault);
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL"]
fn written_pages_that_are_found_by_comparison_do_as_well() {
    fail_over(1, DeviceStateKind::XenSave, Virtio::Legacy, TrackerKind::Shadow);
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL, and a kernel with soft-dirty bits here"]
fn pages_told_by_soft_dirty_do_as_well_with_one_cpu() {
    fail_over(1, DeviceStateKind::XenSave, Virtio::Legacy, TrackerKind::SoftDirty);
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL, and a kernel with soft-dirty bits here"]
fn pages_told_by_soft_dirty_do_as_well_with_two_cpus() {
    fail_over(2, DeviceStateKind::XenSave, Virtio::Legacy, TrackerKind::SoftDirty);
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL"]
fn a_standby_waits_for_the_word_to_run_and_takes_one_state_only() {
    let lab = Lab::new(1);
    let (primary_peer, netdev) = Peer::pair();
    let mut primary = lab.boot("primary", netdev);
    primary.resume().unwrap();
    let seen = primary_peer.wait_for("the first round", |_| true);
    let (standby_peer, netdev) = Peer::pair();
    let mut standby = lab.standby("standby", netdev);
    let mut protection = Protection::begin(&mut primary, &standby, DeviceStateKind::XenSave);
    let state = protection.capture(&mut primary, &standby);
    assert!(matches!(primary.load(&state), Err(GuestError::NotAStandby)));
    primary.kill().unwrap();
    standby.load(&state).unwrap();
    let status = standby.qmp.execute("query-status", serde_json::json!({})).unwrap();
    assert_eq!(status["status"], "paused", "{status}");
    assert!(matches!(standby.load(&state), Err(GuestError::NotAStandby)));
    standby.resume().unwrap();
    let first = standby_peer.wait_for("anything", |_| true);
    assert_eq!(first.boot, seen.boot);
}

#[test]
#[ignore = "starts QEMU: needs STEALTIME_KERNEL"]
fn a_state_that_is_cut_short_ends_the_standby_with_qemus_words() {
    let lab = Lab::new(1);
    let (_peer, netdev) = Peer::pair();
    let mut primary = lab.boot("primary", netdev);
    let mut devices = primary.device_state(DeviceStateKind::XenSave).unwrap();
    devices.begin_capture(&mut primary.qmp).unwrap();
    let state = devices.finish_capture(&mut primary.qmp).unwrap();
    let (_peer, netdev) = Peer::pair();
    let mut standby = lab.standby("standby", netdev);
    let refused = standby.load(&state[..state.len() / 2]).unwrap_err();
    assert!(matches!(refused, GuestError::Ended { .. } | GuestError::LoadFailed { .. }), "{refused}");
}

#[test]
#[ignore = "boots a guest: needs STEALTIME_KERNEL"]
fn a_state_is_tried_out_beside_the_standby_and_changes_nothing_of_it() {
    for kind in [DeviceStateKind::XenSave, DeviceStateKind::IgnoreShared] {
        let mut lab = Lab::new(1);
        let (primary_peer, netdev) = Peer::pair();
        let mut primary = lab.boot("primary", netdev);
        primary.resume().unwrap();
        let seen = primary_peer.wait_for("20 rounds", |beat| beat.round >= 20);
        let (standby_peer, netdev) = Peer::pair();
        let mut standby = lab.standby("standby", netdev);
        let mut protection = Protection::begin(&mut primary, &standby, kind);
        let state = protection.capture(&mut primary, &standby);
        primary.kill().unwrap();
        let contents = |guest: &Guest| -> Vec<Vec<u8>> {
            let page = |index| {
                let mut page = Vec::new();
                guest.ram.copy_page_into(index, &mut page).unwrap();
                page
            };
            (0..guest.ram.len_pages()).map(page).collect()
        };
        let before = contents(&standby);

        let mut trial = lab.trial("trial", &standby);
        trial.load(&state).unwrap();
        let own = private_bytes(trial.process().pid());
        eprintln!("trial: {own} bytes of its own");
        assert!(own < MEMORY_BYTES / 2, "the memory of the standby is copied: {own} bytes");
        drop(trial);
        assert!(contents(&standby) == before, "the trial wrote the memory of the standby");

        // Another set of devices, as with another QEMU.
        let devices = std::mem::take(&mut lab.spec.devices);
        assert!(!devices.is_empty());
        let refused = lab.trial("other-devices", &standby).load(&state).unwrap_err();
        assert!(matches!(refused, GuestError::Ended { .. } | GuestError::LoadFailed { .. }), "{refused}");
        assert!(refused.to_string().contains("virtio-rng"), "{refused}");
        lab.spec.devices = devices;

        standby.load_and_resume(&state).unwrap();
        let rounds = seen.round + 100;
        let later = standby_peer.wait_for("100 further rounds", |beat| beat.round >= rounds);
        assert_eq!((later.boot, later.corrupt_pages), (seen.boot, 0));
    }
}

/// Memory that no other process shares.
fn private_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let private = text.lines().filter(|line| line.starts_with("Private_"));
    private.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10).sum()
}

#[test]
#[ignore = "starts QEMU: needs STEALTIME_KERNEL"]
fn a_machine_that_qemu_does_not_know_is_refused_in_qemus_words() {
    let mut lab = Lab::new(1);
    lab.spec.machine = "pc-i440fx-99.9".into();
    let (_peer, netdev) = Peer::pair();
    let refused = lab.try_boot("primary", netdev).err().expect("there is no such machine type");
    assert!(matches!(&refused, GuestError::Ended { log_tail, .. } if log_tail.contains("machine type")), "{refused}");
}

#[test]
#[ignore = "starts QEMU: needs STEALTIME_KERNEL"]
fn what_a_running_machine_has_is_refused_by_name() {
    let mut lab = Lab::new(1);
    lab.spec.devices = vec!["VGA".into()];
    let (_peer, netdev) = Peer::pair();
    let refused = lab.try_boot("before", netdev).err().expect("a display adapter is not protected");
    assert!(refused.to_string().contains("`VGA`"), "{refused}");
    // A program that adds a device of its own: only QEMU itself can tell.
    let program = lab.program_that_adds("-device VGA");
    lab.spec.devices.clear();
    lab.program = program;
    let (_peer, netdev) = Peer::pair();
    let refused = lab.try_boot("after", netdev).err().expect("its memory would be lost");
    assert!(refused.to_string().contains("vga.vram"), "{refused}");
}

#[test]
#[ignore = "starts QEMU: needs STEALTIME_KERNEL"]
fn qemu_does_not_outlive_the_guest() {
    let lab = Lab::new(1);
    let (_peer, netdev) = Peer::pair();
    // Started by a thread that ends at once: QEMU is tied to the process, not to that thread.
    let mut guest = std::thread::scope(|scope| scope.spawn(|| lab.boot("primary", netdev)).join().unwrap());
    guest.qmp.execute("query-status", serde_json::json!({})).unwrap();
    let pid = guest.process().pid();
    drop(guest);
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
#[ignore = "starts QEMU: needs STEALTIME_KERNEL, and to be root"]
fn each_qemu_has_a_user_of_its_own_who_may_read_nothing_of_ours() {
    let lab = Lab::new(1);
    // The folder on the way is for nobody else either.
    std::fs::set_permissions(&lab.spec.initramfs.as_ref().unwrap().path, Permissions::from_mode(0o600)).unwrap();
    let guests = ["primary", "other"].map(|name| {
        let (peer, netdev) = Peer::pair();
        (lab.boot(name, netdev), peer)
    });
    let rights = |guest: &Guest| {
        let text = std::fs::read_to_string(format!("/proc/{}/status", guest.process().pid())).unwrap();
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
        ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "CapInh:", "CapAmb:"].map(field)
    };
    for (guest, _) in &guests {
        let number = (0x7000_0000 + guest.process().pid()).to_string();
        let everywhere = [number.as_str(); 4].join("\t");
        let [uid, gid, groups, capabilities @ ..] = rights(guest);
        assert_eq!([uid, gid, groups], [everywhere.clone(), everywhere, String::new()]);
        assert_eq!(capabilities, ["0000000000000000"; 4]);
        assert_eq!(guest.refused_trackers, [], "the tracker must work for such a user too");
    }
    // A user who is named is taken.
    let (_peer, netdev) = Peer::pair();
    let user = QemuUser { uid: 4711, gid: 4712, groups: vec![4713] };
    let named = lab.boot_as("named", netdev, user);
    let [uid, gid, groups, ..] = rights(&named);
    assert_eq!([uid, gid, groups], ["4711\t".repeat(4).trim(), "4712\t".repeat(4).trim(), "4713"].map(str::to_owned));
}
