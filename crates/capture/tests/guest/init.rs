//! The guest of the tests: `/init` of an initramfs, compiled by the test that boots it (static, without any crate).
//!
//! One thread for each virtual CPU writes patterns to memory and checks what it wrote before; a line "CORRUPT" on the
//! console says that a page had changed meanwhile. Some of its memory changes and changes back. Every few milliseconds
//! the first thread also sends a frame with the number of the boot and its own count; a frame from outside that says
//! "reboot" reboots the guest.

use std::ffi::{CString, c_char, c_int, c_long, c_ulong, c_void};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

unsafe extern "C" {
    fn mount(source: *const c_char, target: *const c_char, kind: *const c_char, flags: c_ulong, data: *const c_void) -> c_int;
    fn reboot(command: c_int) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn ioctl(descriptor: c_int, request: c_ulong, ...) -> c_int;
    fn bind(descriptor: c_int, address: *const c_void, length: u32) -> c_int;
    fn send(descriptor: c_int, bytes: *const c_void, length: usize, flags: c_int) -> isize;
    fn recv(descriptor: c_int, bytes: *mut c_void, length: usize, flags: c_int) -> isize;
}

const PAGE_BYTES: usize = 4096;
/// 32 MiB for each thread, of which each round touches `PAGES_A_ROUND`.
const PAGES: usize = 8192;
const PAGES_A_ROUND: usize = 200;
/// A word each of so many further pages goes from 0 to 1 and back, each page at a pace of its own.
const FLIPPING_PAGES: usize = 64;
const PACES: u64 = 7;
/// "Local Experimental EtherType 1" (IEEE 802).
const ETHER_TYPE: u16 = 0x88B5;
static CORRUPT: AtomicU64 = AtomicU64::new(0);

fn main() {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        let _ = std::fs::create_dir(target);
        let (kind, target) = (CString::new(kind).unwrap(), CString::new(target).unwrap());
        unsafe { mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    }
    for module in std::fs::read_to_string("/modules").unwrap().lines() {
        let file = std::fs::File::open(module).unwrap();
        let finit_module = 313;
        if unsafe { syscall(finit_module, file.as_raw_fd(), c"".as_ptr(), 0) } != 0 {
            println!("the module {module} is refused: {}", std::io::Error::last_os_error());
        }
    }
    let mut boot = [0; 8];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut boot).unwrap();
    let boot = u64::from_le_bytes(boot);
    let card = open_network();
    println!("guest: boot {boot}");
    std::thread::spawn(move || obey(card));
    let cpus = std::thread::available_parallelism().unwrap().get();
    for thread in 1..cpus as u64 {
        std::thread::spawn(move || write_memory(thread, |_| {}));
    }
    write_memory(0, |round| {
        let mut frame = vec![0xFF; 6];
        frame.extend([0x52, 0x54, 0, 0, 0, 1]);
        frame.extend(ETHER_TYPE.to_be_bytes());
        for number in [boot, round, CORRUPT.load(Ordering::Relaxed), cpus as u64] {
            frame.extend(number.to_le_bytes());
        }
        frame.resize(60, 0);
        unsafe { send(card, frame.as_ptr().cast(), frame.len(), 0) };
    });
}

/// What the page must hold after a round.
fn stamp(thread: u64, page: usize, round: u64) -> u64 {
    (round + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (page as u64) << 8 ^ thread
}

fn write_memory(thread: u64, mut each_round: impl FnMut(u64)) {
    let mut memory = vec![0_u64; PAGES * PAGE_BYTES / 8];
    let mut last_round = vec![None; PAGES];
    let mut flipping = vec![0_u64; FLIPPING_PAGES * PAGE_BYTES / 8];
    for round in 0.. {
        for page in 0..FLIPPING_PAGES {
            let value = round / (1 + page as u64 % PACES) % 2;
            unsafe { std::ptr::write_volatile(&mut flipping[page * PAGE_BYTES / 8], value) };
        }
        for step in 0..PAGES_A_ROUND {
            let page = (round as usize * PAGES_A_ROUND + step * 7) % PAGES;
            let words = &mut memory[page * PAGE_BYTES / 8..][..PAGE_BYTES / 8];
            let expected = last_round[page].map_or(0, |last| stamp(thread, page, last));
            if words[0] != expected || words[PAGE_BYTES / 8 - 1] != expected {
                CORRUPT.fetch_add(1, Ordering::Relaxed);
                println!("CORRUPT thread {thread} page {page} round {round}");
            }
            let now = stamp(thread, page, round);
            (words[0], words[PAGE_BYTES / 8 - 1]) = (now, now);
            last_round[page] = Some(round);
        }
        if round % 100 == 0 {
            println!("thread {thread} round {round}");
        }
        each_round(round);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A packet socket on eth0.
fn open_network() -> c_int {
    const INTERFACE_INDEX: c_ulong = 0x8933;
    const SET_FLAGS: c_ulong = 0x8914;
    let card = unsafe { socket(17, 3, c_int::from(ETHER_TYPE.to_be())) };
    let mut request = [0_u8; 40];
    request[..4].copy_from_slice(b"eth0");
    request[16] = 1;
    let up = unsafe { ioctl(card, SET_FLAGS, request.as_mut_ptr()) };
    let found = unsafe { ioctl(card, INTERFACE_INDEX, request.as_mut_ptr()) };
    let mut address = [0_u8; 20];
    address[..2].copy_from_slice(&17_u16.to_ne_bytes());
    address[2..4].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    address[4..8].copy_from_slice(&request[16..20]);
    let bound = unsafe { bind(card, address.as_ptr().cast(), 20) };
    if up != 0 || found != 0 || bound != 0 {
        println!("no network: {up} {found} {bound}");
    }
    card
}

fn obey(card: c_int) {
    loop {
        let mut frame = [0_u8; 1514];
        let length = unsafe { recv(card, frame.as_mut_ptr().cast(), frame.len(), 0) };
        if length >= 20 && frame[14..].starts_with(b"reboot") {
            println!("guest: reboot");
            unsafe { reboot(0x0123_4567) };
        }
    }
}
