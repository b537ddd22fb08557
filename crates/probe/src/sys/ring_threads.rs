//! Threads that share one mapping for their stacks.
//!
//! A thread of the standard library brings four mappings (stack, guard page, signal stack and its guard). A
//! thousand of them are a burden where mappings are dear: User-Mode Linux maps all of a process's pages anew
//! whenever one of its threads runs for the first time (`force_flush_all()` in `fork_handler()`, Linux 6.1),
//! one host system call for each stretch. Here all stacks lie in one mapping without guards; a word at the
//! low end of each tells afterwards whether it was overrun.

use std::ffi::c_void;
use std::io;
use std::ptr;

/// Stands at the low end of each stack.
const CANARY: u64 = 0x5EA1_7133_57AC_CA4E;

struct Stacks {
    start: *mut c_void,
    bytes: usize,
}

impl Stacks {
    fn new(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping; no existing memory is touched.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Self { start, bytes }) }
    }

    /// The low end of stack `number`; stacks are page-aligned, hence aligned for a word.
    fn low_end(&self, number: u32, stack_bytes: usize) -> *mut u64 {
        self.start.cast::<u8>().wrapping_add(number as usize * stack_bytes).cast()
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, of the same size; all threads on it were joined.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

struct Start<'a> {
    body: &'a (dyn Fn(u32) + Sync),
    number: u32,
}

extern "C" fn enter(start: *mut c_void) -> *mut c_void {
    // SAFETY: `run_ring` passes a Start that it keeps until this thread was joined.
    let start = unsafe { &*start.cast::<Start>() };
    (start.body)(start.number);
    ptr::null_mut()
}

/// Threads that were started; dropped, they are waited for, also when a panic unwinds past them: until they
/// have ended nothing may go that they use.
#[derive(Default)]
struct Started(Vec<libc::pthread_t>);

impl Drop for Started {
    fn drop(&mut self) {
        for &thread in &self.0 {
            // SAFETY: started by `spawn`, joinable, and joined once.
            unsafe { libc::pthread_join(thread, ptr::null_mut()) };
        }
    }
}

/// Runs `body(0)`, `body(1)` ... in `count` threads with stacks of `stack_bytes` (a multiple of the page
/// size), and `meanwhile` in the calling thread when all of them were started; waits for all. `meanwhile` is
/// told if one could not be started, and must make the others end in any case, also when it panics.
///
/// # Errors
/// If the stacks or a thread cannot be made, or if a stack was too small.
pub fn run_ring<R>(
    count: u32,
    stack_bytes: usize,
    body: &(dyn Fn(u32) + Sync),
    meanwhile: impl FnOnce(io::Result<()>) -> R,
) -> io::Result<R> {
    let stacks = Stacks::new(count as usize * stack_bytes)?;
    let starts: Vec<Start> = (0..count).map(|number| Start { body, number }).collect();
    // Declared after what the threads use, so that they end before it goes.
    let mut threads = Started::default();
    let mut started = Ok(());
    for start in &starts {
        match spawn(start, stacks.low_end(start.number, stack_bytes), stack_bytes) {
            Ok(thread) => threads.0.push(thread),
            Err(error) => {
                started = Err(error);
                break;
            }
        }
    }
    let result = meanwhile(started);
    let spawned = (0..count).take(threads.0.len());
    drop(threads);
    let overrun = spawned.into_iter().find(|&number| {
        // SAFETY: inside the mapping, aligned, written by `spawn`, and the thread has ended.
        unsafe { stacks.low_end(number, stack_bytes).read_volatile() != CANARY }
    });
    match overrun {
        Some(number) => Err(io::Error::other(format!("thread {number} overran its stack of {stack_bytes} bytes"))),
        None => Ok(result),
    }
}

fn spawn(start: &Start, low_end: *mut u64, stack_bytes: usize) -> io::Result<libc::pthread_t> {
    // SAFETY: the low end of a stack that nobody uses yet.
    unsafe { low_end.write_volatile(CANARY) };
    // SAFETY: all-zero is valid as memory to be initialised by pthread_attr_init.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: `attributes` is writable.
    check(unsafe { libc::pthread_attr_init(&raw mut attributes) })?;
    // SAFETY: the stack is part of a mapping that outlives the thread, which `run_ring` joins.
    let mut result = check(unsafe { libc::pthread_attr_setstack(&raw mut attributes, low_end.cast(), stack_bytes) });
    let mut thread: libc::pthread_t = 0;
    if result.is_ok() {
        let argument = ptr::from_ref(start).cast_mut().cast();
        // SAFETY: `enter` reads a Start, which outlives the thread.
        result = check(unsafe { libc::pthread_create(&raw mut thread, &raw const attributes, enter, argument) });
    }
    // SAFETY: initialised above.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    result.map(|()| thread)
}

/// The thread functions return their error instead of setting `errno`.
fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const PAGE_BYTES: usize = 4096;

    #[test]
    fn every_thread_runs_once_with_its_number() {
        let sum = AtomicU32::new(0);
        let body = |number: u32| {
            sum.fetch_add(number, Ordering::SeqCst);
        };
        let told = run_ring(20, 32 << 10, &body, |started| started.is_ok()).unwrap();
        assert!(told);
        assert_eq!(sum.into_inner(), 190);
    }

    #[test]
    fn a_panic_while_threads_run_waits_for_them_before_their_stacks_go() {
        /// Lets the threads go on once the panic unwinds.
        struct Release<'a>(&'a AtomicU32);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(1, Ordering::SeqCst);
            }
        }
        let (released, ended) = (AtomicU32::new(0), AtomicU32::new(0));
        let body = |_| {
            while released.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // Long enough for whoever does not wait to be gone.
            (0..1000).for_each(|_| std::thread::yield_now());
            ended.fetch_add(1, Ordering::SeqCst);
        };
        let panicking = std::panic::AssertUnwindSafe(|| {
            run_ring(8, 32 << 10, &body, |_| -> () {
                let _release = Release(&released);
                panic!("while the threads run");
            })
        });
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert_eq!(ended.into_inner(), 8);
    }

    #[test]
    fn a_stack_that_was_overrun_is_noticed() {
        // What an overrun leaves: the word at the low end of the thread's own stack is another one.
        let body = |number: u32| {
            if number == 1 {
                let here = 0_u64;
                let mut word = (&raw const here as usize / PAGE_BYTES * PAGE_BYTES) as *mut u64;
                // SAFETY: walks down the pages of this thread's stack to its low end, where `spawn` put the
                // canary.
                unsafe {
                    while word.read_volatile() != CANARY {
                        word = word.cast::<u8>().wrapping_sub(PAGE_BYTES).cast();
                    }
                    word.write_volatile(0);
                }
            }
        };
        let error = run_ring(2, 32 << 10, &body, |_| ()).unwrap_err();
        assert!(error.to_string().contains("thread 1 overran"), "{error}");
    }
}
