//! The memory groups that a process is in, of either version.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::Room;

/// Files of one version of groups.
struct Files {
    limits: &'static [&'static str],
    usage: &'static str,
    /// The line of `memory.stat` that counts a group and all below it.
    cache: &'static str,
}

const VERSION_1: Files =
    Files { limits: &["memory.limit_in_bytes"], usage: "memory.usage_in_bytes", cache: "total_inactive_file" };
const VERSION_2: Files =
    Files { limits: &["memory.max", "memory.high"], usage: "memory.current", cache: "inactive_file" };

/// A tree of groups as it is mounted here.
struct Mount {
    /// The part of the tree that it shows, as the process sees the tree's paths.
    shown: PathBuf,
    point: PathBuf,
    files: &'static Files,
}

/// What each limit around this process leaves.
pub fn rooms(root: &Path) -> impl Iterator<Item = Room> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let groups = read("proc/self/cgroup");
    let mounts = read("proc/self/mountinfo");
    let mounts = mounts.lines().filter_map(mount);
    let folders: Vec<(PathBuf, &Files)> = mounts
        .filter_map(|mount| Some((mount.files, folders_around(&mount, &group_in(&groups, mount.files)?))))
        .flat_map(|(files, folders)| folders.into_iter().map(move |folder| (folder, files)))
        .collect();
    let root = root.to_owned();
    folders.into_iter().flat_map(move |(folder, files)| rooms_in(&root, &folder, files))
}

/// A line of `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`), if it mounts a tree that may hold the controller.
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (shown, point) = (unescaped(place.next()?), unescaped(place.next()?));
    let mut kind = kind.split(' ');
    let files = match kind.next()? {
        "cgroup" if kind.nth(1)?.split(',').any(|option| option == "memory") => &VERSION_1,
        "cgroup2" => &VERSION_2,
        _ => return None,
    };
    Some(Mount { shown, point, files })
}

/// The kernel writes blank, tab, newline and backslash as three octal digits.
fn unescaped(word: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(word.to_owned(), |word, (escape, letter)| word.replace(escape, letter)).into()
}

/// The group of `/proc/self/cgroup` (`cgroups(7)`): `ID:CONTROLLERS:PATH`, without controllers for version 2.
fn group_in(groups: &str, files: &Files) -> Option<PathBuf> {
    let is_ours = |controllers: &str| {
        if files.usage == VERSION_2.usage {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == "memory")
        }
    };
    groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        is_ours(controllers).then(|| PathBuf::from(path))
    })
}

/// The group's folder and all above it, as far as they can be seen; of a group outside the mount the mount alone.
fn folders_around(mount: &Mount, group: &Path) -> Vec<PathBuf> {
    let below = group.strip_prefix(&mount.shown).unwrap_or(Path::new(""));
    let is_inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    let innermost = if is_inside { mount.point.join(below) } else { mount.point.clone() };
    innermost.ancestors().take_while(|folder| folder.starts_with(&mount.point)).map(Path::to_owned).collect()
}

fn rooms_in(root: &Path, folder: &Path, files: &Files) -> Vec<Room> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(root.join(path.strip_prefix("/").unwrap_or(&path))).ok()
    };
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    // The root of a tree has no limit.
    let Some(usage) = number(files.usage) else { return Vec::new() };
    let stat = read("memory.stat").unwrap_or_default();
    let cache = stat.lines().find_map(|line| line.strip_prefix(files.cache)?.trim().parse::<u64>().ok());
    let held = usage.saturating_sub(cache.unwrap_or(0));
    // "max" is no number: no limit.
    let limits = files.limits.iter().filter_map(|name| Some((folder.join(name), number(name)?)));
    limits.map(|(file, limit)| Room { bytes: limit.saturating_sub(held), limit: file.display().to_string() }).collect()
}
