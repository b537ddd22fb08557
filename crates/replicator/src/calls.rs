//! Calls to a register that may take as long as they like, or never return, as those to a folder on a file system that
//! is frozen: none is waited for longer than a bound, and what is not answered by then is told as unreachable.
//!
//! A call that was given up may be carried out all the same, whenever it returns. That is what a member expects of each
//! request without an answer (`Failure::DelayRequest` of the model in `stealtime-succession`: it is given up, the
//! member asks on, and it is applied later). All the same only one call at a time is under way, so that changes are
//! made in their order and hung threads do not pile up; but while a call hangs the register is read by a second handle.
//! A file system that is frozen can be read, and then nothing but changes has to wait.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stealtime_succession::{Register, RegisterAnswer, RegisterCall, RegisterOutcome, RegisterRequest};

/// What an operator should know of a register although it answers.
#[derive(Debug, Clone, Default)]
pub struct Remark(Arc<Mutex<Option<String>>>);

impl Remark {
    pub fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, remark: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = remark;
    }
}

/// Makes the calls of one member, one after the other.
pub struct Calls {
    vm: String,
    name: String,
    patience: Duration,
    /// For all calls.
    main: Lane,
    second: Option<Box<dyn Register>>,
    /// For reads while a call hangs.
    spare: Option<Lane>,
}

impl Calls {
    /// Start the thread that calls the register. No call is waited for longer than `patience`.
    pub fn start(register: Box<dyn Register>, vm: &str, patience: Duration, remark: Remark) -> io::Result<Self> {
        let (name, second) = (register.describe(), register.another());
        let main = Lane::start(register, vm.to_owned(), remark)?;
        Ok(Self { vm: vm.to_owned(), name, patience, main, second, spare: None })
    }

    /// Make a call; give its answer, or that there is none.
    pub fn make(&mut self, request: RegisterRequest) -> RegisterAnswer {
        let (id, patience) = (request.id, self.patience);
        let lane = self.lane_for(&request.call);
        if let Some(answer) = lane.make(request, patience) {
            return answer;
        }
        let waited = lane.waits_since.map_or(patience, |since| since.elapsed());
        let reason = format!("the register {} has not answered for {:.1} s", self.name, waited.as_secs_f64());
        RegisterAnswer { id, outcome: RegisterOutcome::Unreachable { reason } }
    }

    /// Have it do what would take time at the next call; nobody waits for that.
    pub fn keep_ready(&mut self) {
        if self.main.is_idle() {
            self.main.begin(Job::KeepReady);
        }
    }

    fn lane_for(&mut self, call: &RegisterCall) -> &mut Lane {
        if *call != RegisterCall::Read || !self.main.hangs() {
            return &mut self.main;
        }
        if let Some(second) = self.second.take() {
            // Without one, reads wait as well.
            self.spare = Lane::start(second, self.vm.clone(), Remark::default()).ok();
        }
        self.spare.as_mut().unwrap_or(&mut self.main)
    }
}

enum Job {
    Call(RegisterRequest),
    KeepReady,
}

/// A thread with a handle on the register. It ends after what is under way once nobody waits for it any more; the end
/// of the process waits for no thread.
struct Lane {
    jobs: Sender<Job>,
    /// None: there was nothing to answer.
    done: Receiver<Option<RegisterAnswer>>,
    /// Since when something is under way.
    waits_since: Option<Instant>,
    /// Whether that was given up.
    given_up: bool,
}

impl Lane {
    fn start(mut register: Box<dyn Register>, vm: String, remark: Remark) -> io::Result<Self> {
        let (jobs, taken) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        thread::Builder::new().name("register".to_owned()).spawn(move || {
            for job in taken {
                let answer = match job {
                    Job::Call(request) => Some(request.perform(register.as_mut(), &vm)),
                    Job::KeepReady => {
                        register.keep_ready(&vm);
                        None
                    }
                };
                remark.set(register.remark());
                if tell.send(answer).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { jobs, done, waits_since: None, given_up: false })
    }

    fn begin(&mut self, job: Job) {
        self.waits_since = Some(Instant::now());
        // A thread that has ended is noticed by what does not come.
        let _ = self.jobs.send(job);
    }

    fn is_idle(&mut self) -> bool {
        if self.waits_since.is_some() && !matches!(self.done.try_recv(), Err(TryRecvError::Empty)) {
            self.ended();
        }
        self.waits_since.is_none()
    }

    /// Whether a call that was given up is still under way.
    fn hangs(&mut self) -> bool {
        !self.is_idle() && self.given_up
    }

    fn ended(&mut self) {
        (self.waits_since, self.given_up) = (None, false);
    }

    /// Make a call after what is under way; None: one of them was not done in time, and the call may have been made.
    fn make(&mut self, request: RegisterRequest, patience: Duration) -> Option<RegisterAnswer> {
        if !self.is_idle() {
            // What it answers is for nobody.
            self.wait(patience).ok()?;
        }
        self.begin(Job::Call(request));
        self.wait(patience).ok().flatten()
    }

    /// Wait until what is under way is done, and give its answer, if it has one.
    fn wait(&mut self, patience: Duration) -> Result<Option<RegisterAnswer>, RecvTimeoutError> {
        let done = self.done.recv_timeout(patience);
        match done {
            Ok(_) => self.ended(),
            Err(RecvTimeoutError::Timeout) => self.given_up = true,
            Err(RecvTimeoutError::Disconnected) => {
                self.ended();
                // Nobody is to ask as fast as it can.
                thread::sleep(patience);
            }
        }
        done
    }
}

#[cfg(test)]
pub mod tests {
    use std::sync::Condvar;

    use stealtime_succession::{FileRegister, MemberId, Record, RegisterError, SwapOutcome, Term, Version, Versioned};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(50);

    /// Holds calls up while a test wants it, and knows how many are under way.
    #[derive(Debug, Clone, Default)]
    pub struct Barrier(Arc<(Mutex<Held>, Condvar)>);

    #[derive(Debug, Default)]
    struct Held {
        reads: bool,
        swaps: bool,
        under_way: u64,
        most: u64,
    }

    impl Barrier {
        pub fn hold(&self, reads: bool, swaps: bool) {
            let (held, changed) = &*self.0;
            let mut held = held.lock().unwrap();
            (held.reads, held.swaps) = (reads, swaps);
            changed.notify_all();
        }

        pub fn pass(&self, is_swap: bool) {
            let (held, changed) = &*self.0;
            let mut held = held.lock().unwrap();
            held.under_way += 1;
            held.most = held.most.max(held.under_way);
            while if is_swap { held.swaps } else { held.reads } {
                held = changed.wait(held).unwrap();
            }
            held.under_way -= 1;
        }

        pub fn most(&self) -> u64 {
            self.0.0.lock().unwrap().most
        }
    }

    /// A folder whose calls may hang.
    struct Hanging {
        register: FileRegister,
        barrier: Barrier,
        has_another: bool,
    }

    impl Register for Hanging {
        fn read(&mut self, vm: &str) -> Result<Option<Versioned>, RegisterError> {
            self.barrier.pass(false);
            self.register.read(vm)
        }

        fn swap(&mut self, vm: &str, expected: Option<Version>, wanted: &Record) -> Result<SwapOutcome, RegisterError> {
            self.barrier.pass(true);
            self.register.swap(vm, expected, wanted)
        }

        fn another(&self) -> Option<Box<dyn Register>> {
            let (register, barrier) = (self.register.clone(), self.barrier.clone());
            self.has_another.then(|| Box::new(Self { register, barrier, has_another: false }) as Box<dyn Register>)
        }

        fn describe(&self) -> String {
            "that hangs".to_owned()
        }
    }

    fn calls(folder: &tempfile::TempDir, has_another: bool) -> (Calls, Barrier) {
        let barrier = Barrier::default();
        let register = FileRegister::open(folder.path()).unwrap();
        let hanging = Box::new(Hanging { register, barrier: barrier.clone(), has_another });
        (Calls::start(hanging, "vm", PATIENCE, Remark::default()).unwrap(), barrier)
    }

    fn record() -> Record {
        Record::alone(Term(1), MemberId::new("a", 1))
    }

    fn read(id: u64) -> RegisterRequest {
        RegisterRequest { id, call: RegisterCall::Read }
    }

    fn swap(id: u64) -> RegisterRequest {
        RegisterRequest { id, call: RegisterCall::Swap { expected: None, wanted: record() } }
    }

    fn reason(answer: RegisterAnswer) -> String {
        let RegisterOutcome::Unreachable { reason } = answer.outcome else { panic!("{answer:?}") };
        reason
    }

    /// What is read once it can be.
    fn read_at_last(calls: &mut Calls) -> Option<Record> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            if let RegisterOutcome::Read(found) = calls.make(read(9)).outcome {
                return found.map(|found| found.record);
            }
            assert!(Instant::now() < until);
        }
    }

    #[test]
    fn a_call_that_hangs_is_told_as_unreachable_and_no_other_is_made_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let (mut calls, barrier) = calls(&folder, false);
        barrier.hold(true, true);
        let answer = calls.make(read(1));
        assert_eq!(answer.id, 1);
        let reason = reason(answer);
        assert!(reason.starts_with("the register that hangs has not answered for 0."), "{reason}");
        for id in 2..5 {
            assert!(matches!(calls.make(swap(id)).outcome, RegisterOutcome::Unreachable { .. }));
        }
        barrier.hold(false, false);
        assert_eq!(read_at_last(&mut calls), None, "what was not begun was not made later");
        assert_eq!(barrier.most(), 1);
    }

    #[test]
    fn a_swap_that_returns_late_may_have_been_made() {
        let folder = tempfile::tempdir().unwrap();
        let (mut calls, barrier) = calls(&folder, false);
        barrier.hold(false, true);
        assert!(matches!(calls.make(swap(1)).outcome, RegisterOutcome::Unreachable { .. }));
        barrier.hold(false, false);
        assert_eq!(read_at_last(&mut calls), Some(record()));
        let answer = calls.make(swap(2));
        assert!(matches!(&answer.outcome, RegisterOutcome::Swap(SwapOutcome::Lost(Some(it))) if it.record == record()));
        assert_eq!((answer.id, barrier.most()), (2, 1), "the late answer is nobody's");
    }

    #[test]
    fn a_register_whose_changes_hang_is_read_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (mut calls, barrier) = calls(&folder, true);
        barrier.hold(false, true);
        assert!(matches!(calls.make(swap(1)).outcome, RegisterOutcome::Unreachable { .. }));
        assert_eq!(calls.make(read(2)).outcome, RegisterOutcome::Read(None));
        assert!(matches!(calls.make(swap(3)).outcome, RegisterOutcome::Unreachable { .. }));
        // That one hangs as well: now nothing is known any more.
        barrier.hold(true, true);
        assert!(matches!(calls.make(read(4)).outcome, RegisterOutcome::Unreachable { .. }));
        assert!(matches!(calls.make(read(5)).outcome, RegisterOutcome::Unreachable { .. }));
        assert_eq!(barrier.most(), 2);
        barrier.hold(false, false);
        let until = Instant::now() + Duration::from_secs(20);
        while read_at_last(&mut calls) != Some(record()) {
            assert!(Instant::now() < until, "the swap was not made at last");
        }
    }
}
