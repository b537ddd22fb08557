//! A member over a guest, a register and a standby that do as a test wants.

use std::fmt::Debug;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stealtime_shipping::{
    Acknowledge, Confirmed, Endpoint, Heartbeat, Hello, Inquire, LinkReceiver, LinkSender, Listener, Message,
    Refusal as ShippingRefusal, Told, Welcome, accept,
};
use stealtime_succession::{
    ActiveEnding, Epoch, MemberId, Record, Register, RegisterError, SwapOutcome, Term, Version, Versioned,
};
use tempfile::TempDir;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::super::{Active, ActiveError, Input, Origin};
use crate::calls::tests::Barrier;
use crate::control::{Command, Refusal, Request};
use crate::fake_guest::{Deed, FakeGuest, Watcher};
use crate::spec::{Spec, StandbyHost};
use crate::test_machine::machine;

/// Long, as other tests may keep the processors busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// A member that runs.
pub struct Rig {
    pub guest: Watcher,
    pub register: Shared,
    requests: mpsc::Sender<Request>,
    inputs: UnboundedSender<Input>,
    /// Of the host `b`.
    listener: Listener,
    running: JoinHandle<Result<ActiveEnding, ActiveError>>,
    pub folder: TempDir,
}

/// `active_deadline`, `standby_timeout` and `register_deadline`: of a lease that outlives a busy host.
pub const PATIENT_MS: [u64; 3] = [4000, 5000, 6000];

/// Those that end within a test.
pub const IMPATIENT_MS: [u64; 3] = [1000, 1200, 1500];

pub fn spec(folder: &Path, mode: &str, deadlines_ms: [u64; 3]) -> Spec {
    let [active_deadline_ns, standby_timeout_ns, register_deadline_ns] =
        deadlines_ms.map(|deadline_ms| deadline_ms * 1_000_000);
    let spec = json!({
        "version": crate::spec::VERSION,
        "machine": machine(Path::new("/boot/image")),
        "qemu": "/no/qemu",
        "host": "a",
        "standby_hosts": [{"name": "b", "endpoint": endpoint(folder)}],
        "mode": mode,
        "interval": {"fixed_ns": 100_000_000},
        "bypass": [],
        "tracker": null,
        "device_state": "xen-save",
        "network": {"tap": "tap-phone", "bridge": null},
        "register": {"file": folder},
        "timing": {
            "heartbeat_interval_ns": 25_000_000,
            "active_deadline_ns": active_deadline_ns,
            "standby_timeout_ns": standby_timeout_ns,
            "register_deadline_ns": register_deadline_ns,
        },
        "identity": null,
        "folder": folder,
        "longest_first_pause_ns": 1_000_000_000,
        // No epoch follows by itself.
        "longest_hold_ns": 3_600_000_000_000_u64,
        "epochs_in_flight": 4,
        "hold_bytes": 64 << 20,
        "metrics": null,
    });
    serde_json::from_value(spec).unwrap()
}

fn endpoint(folder: &Path) -> String {
    Endpoint::Unix(folder.join("standby.sock")).to_string()
}

async fn in_time<T>(what: impl Debug, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("no {what:?}"))
}

impl Rig {
    /// A member that boots its guest.
    pub async fn boot(mode: &str) -> Self {
        Self::start(mode, PATIENT_MS, Shared::default(), Origin::Boot { force: false }).await
    }

    /// A member that begins like this.
    pub async fn start(mode: &str, deadlines_ms: [u64; 3], register: Shared, origin: Origin) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec(folder.path(), mode, deadlines_ms);
        Self::of(folder, spec, register, origin).await
    }

    /// A member that boots its guest, whose output is to wait for no longer than this.
    pub async fn boot_to_hold_for(longest_hold: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(folder.path(), "net", PATIENT_MS);
        spec.longest_hold_ns = u64::try_from(longest_hold.as_nanos()).unwrap();
        Self::of(folder, spec, Shared::default(), Origin::Boot { force: false }).await
    }

    /// A member whose machine may go to the host `c`, too; gives where that one listens.
    pub async fn boot_with_two_hosts() -> (Self, Listener) {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(folder.path(), "net", PATIENT_MS);
        let endpoint = Endpoint::Unix(folder.path().join("c.sock"));
        spec.standby_hosts.push(StandbyHost { name: "c".to_owned(), endpoint: endpoint.to_string() });
        let listener = Listener::bind(&endpoint).await.unwrap();
        (Self::of(folder, spec, Shared::default(), Origin::Boot { force: false }).await, listener)
    }

    /// A member that begins like this on a host that is to go down.
    pub async fn start_on_a_host_that_leaves(register: Shared, origin: Origin) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(folder.path(), "net", PATIENT_MS);
        spec.folder = folder.path().join("phone");
        std::fs::create_dir(&spec.folder).unwrap();
        std::fs::write(folder.path().join(".leaving"), "").unwrap();
        Self::of(folder, spec, register, origin).await
    }

    async fn of(folder: TempDir, spec: Spec, register: Shared, origin: Origin) -> Self {
        let (guest, heard, watcher) = FakeGuest::new();
        let listener = Listener::bind(&endpoint(folder.path()).parse().unwrap()).await.unwrap();
        let (to_inputs, inputs) = unbounded_channel();
        let (asking, requests) = mpsc::channel(4);
        let (me, guest) = (MemberId::new("a", 1), Box::new(guest));
        let of_member = Box::new(register.clone());
        let active = Active::new(spec, me, of_member, guest, origin, &to_inputs).unwrap();
        let running = tokio::spawn(active.run(inputs, heard, requests));
        Self { guest: watcher, register, requests: asking, inputs: to_inputs, listener, running, folder }
    }

    /// Wait until this is done to the guest; gives what was done before it.
    pub async fn see(&mut self, deed: Deed) -> Vec<Deed> {
        let mut before = Vec::new();
        let seen = tokio::time::timeout(PATIENCE, async {
            while let Some(next) = self.guest.deeds.recv().await {
                if next == deed {
                    return;
                }
                before.push(next);
            }
            std::future::pending::<()>().await;
        });
        assert!(seen.await.is_ok(), "no {deed:?} after {before:?}");
        before
    }

    pub async fn ask(&self, command: Command) -> oneshot::Receiver<Result<Value, Refusal>> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request { command, answer }).await.unwrap();
        answered
    }

    pub async fn answer(&self, command: Command) -> Result<Value, Refusal> {
        in_time(&command.clone(), self.ask(command).await).await.unwrap()
    }

    pub async fn status(&self) -> Value {
        self.answer(Command::Status).await.unwrap()
    }

    /// Wait until a field of the status is this.
    pub async fn stands(&self, field: &str, value: impl Into<Value>) {
        let value = value.into();
        in_time(format!("{field} {value}"), async {
            while self.status().await[field] != value {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Wait until a field of the status is like this.
    pub async fn stands_by(&self, field: &str, is_it: impl Fn(&Value) -> bool) {
        in_time(field.to_owned(), async {
            while !is_it(&self.status().await[field]) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    pub async fn ending(&mut self) -> Result<ActiveEnding, ActiveError> {
        in_time("end", &mut self.running).await.unwrap()
    }

    /// Ask it to leave its host.
    pub fn terminate(&self) {
        self.inputs.send(Input::Terminate).unwrap();
    }

    /// Be the standby that the member finds.
    pub async fn standby(&self) -> Standby {
        Standby::on("b", &self.listener).await
    }

    /// Be the host `b`, and take the machine for this reason not.
    pub async fn refuse(&self, refusal: ShippingRefusal) {
        let (hello, sender, _receiver) = hear_hello(&self.listener).await;
        sender.send(&Message::Refuse { term: hello.term, refusal }).await.unwrap();
        sender.close().await.unwrap();
    }

    /// The same, since somebody holds the machine in a later term.
    pub async fn refuse_as_held(&self, holder: &MemberId, known: Term) {
        let (hello, sender, _receiver) = hear_hello(&self.listener).await;
        let (host, vm, asked) = ("b".to_owned(), "phone".to_owned(), hello.term);
        let refusal = ShippingRefusal::OldTerm { host, vm, known, asked, holder: holder.to_string() };
        sender.send(&Message::Refuse { term: asked, refusal }).await.unwrap();
        sender.close().await.unwrap();
    }

    /// Be the host of the standby, and say whether that has ended.
    pub async fn vouch(&self, is_over: bool) -> Inquire {
        let (question, sender) = loop {
            let stream = in_time("question", self.listener.accept()).await.unwrap();
            let Ok(link) = accept(stream, None).await else { continue };
            let (sender, mut receiver) = link.split();
            if let Ok(Message::Inquire(question)) = receiver.receive().await {
                break (question, sender);
            }
        };
        sender.send(&Message::Told(Told { term: question.term, is_over, living: None, verdict: None })).await.unwrap();
        sender.close().await.unwrap();
        question
    }

    /// Have it protected by a standby that holds the first epoch; gives that.
    pub async fn protect(&mut self, first: Epoch) -> Standby {
        let standby = self.standby().await;
        self.protect_by(standby, first).await
    }

    /// The same by a standby that was found already.
    pub async fn protect_by(&mut self, standby: Standby, first: Epoch) -> Standby {
        let term = standby.term;
        self.see(Deed::FullCopy { term, first }).await;
        self.guest.cut(first, false);
        standby.acknowledge(first);
        self.see(Deed::Go(term.next())).await;
        standby.send(&Message::Confirmed(Confirmed { term: term.next(), port_fault: None }));
        self.stands("protected", true).await;
        standby
    }
}

pub struct Standby {
    pub term: Term,
    sender: LinkSender,
    messages: UnboundedReceiver<Message>,
    is_alive: Arc<AtomicBool>,
    reader: JoinHandle<()>,
}

/// The next hello that comes.
async fn hear_hello(listener: &Listener) -> (Box<Hello>, LinkSender, LinkReceiver) {
    loop {
        let stream = in_time("call", listener.accept()).await.unwrap();
        // Who asked on the last standby may have had the register's word meanwhile, and be gone.
        let Ok(link) = accept(stream, None).await else { continue };
        let (sender, mut receiver) = link.split();
        if let Ok(Message::Hello(hello)) = receiver.receive().await {
            return (hello, sender, receiver);
        }
    }
}

impl Standby {
    /// The one that a member finds on this host.
    pub async fn on(host: &str, listener: &Listener) -> Self {
        let (hello, sender, mut receiver) = hear_hello(listener).await;
        let (term, member) = (hello.term, MemberId::new(host, 7));
        let welcome =
            Welcome { term, host: host.to_owned(), member, delta: true, qemu_version: Some("other".to_owned()) };
        sender.send(&Message::Welcome(welcome)).await.unwrap();
        let is_alive = Arc::new(AtomicBool::new(true));
        let (pass_on, messages) = unbounded_channel();
        let (echoes, beats) = (sender.clone(), Arc::clone(&is_alive));
        let reader = tokio::spawn(async move {
            while let Ok(message) = receiver.receive().await {
                if let Message::Heartbeat(Heartbeat { term, sent_ns, .. }) = message {
                    if beats.load(Ordering::Relaxed) {
                        let echo = Heartbeat { term, sent_ns, echo_ns: Some(sent_ns) };
                        let _ = echoes.send(&Message::Heartbeat(echo)).await;
                    }
                } else if pass_on.send(message).is_err() {
                    return;
                }
            }
        });
        Self { term, sender, messages, is_alive, reader }
    }

    pub fn acknowledge(&self, epoch: Epoch) {
        self.sender.try_send(&Message::Acknowledge(Acknowledge { term: self.term, epoch })).unwrap();
    }

    pub fn send(&self, message: &Message) {
        self.sender.try_send(message).unwrap();
    }

    /// Return no heartbeats any more.
    pub fn fall_silent(&self) {
        self.is_alive.store(false, Ordering::Relaxed);
    }

    /// Die.
    pub fn hang_up(&self) {
        self.reader.abort();
        self.sender.abort();
    }

    /// The next message that is like this.
    pub async fn hears(&mut self, is_it: impl Fn(&Message) -> bool) -> Message {
        let next = async {
            loop {
                let message = self.messages.recv().await.expect("the link was closed");
                if is_it(&message) {
                    return message;
                }
            }
        };
        in_time("message", next).await
    }
}

/// A register in memory, which may be away, or hang.
#[derive(Clone, Default)]
pub struct Shared(Arc<Mutex<Contents>>, pub Barrier);

#[derive(Default)]
struct Contents {
    record: Option<Versioned>,
    is_away: bool,
    is_full: bool,
    remark: Option<String>,
}

impl Shared {
    pub fn hide(&self, is_away: bool) {
        self.0.lock().unwrap().is_away = is_away;
    }

    /// Take no writes, or take them again.
    pub fn fill(&self, is_full: bool) {
        self.0.lock().unwrap().is_full = is_full;
    }

    /// Answer nothing, until it is told otherwise.
    pub fn hang(&self, hangs: bool) {
        self.1.hold(hangs, hangs);
    }

    /// Say from the next call on that something is odd.
    pub fn remark_on(&self, remark: Option<&str>) {
        self.0.lock().unwrap().remark = remark.map(str::to_owned);
    }

    pub fn record(&self) -> Option<Record> {
        self.0.lock().unwrap().record.as_ref().map(|current| current.record.clone())
    }

    /// Hold this, whatever was held.
    pub fn put(&self, record: Record) -> Versioned {
        let mut contents = self.0.lock().unwrap();
        let version = Version(contents.record.as_ref().map_or(1, |current| current.version.0 + 1));
        contents.record.insert(Versioned { version, record }).clone()
    }
}

impl Shared {
    fn look(&self) -> Result<Option<Versioned>, RegisterError> {
        let contents = self.0.lock().unwrap();
        if contents.is_away {
            return Err(RegisterError::Setup("it is away".to_owned()));
        }
        Ok(contents.record.clone())
    }
}

impl Register for Shared {
    fn read(&mut self, _: &str) -> Result<Option<Versioned>, RegisterError> {
        self.1.pass(false);
        self.look()
    }

    fn swap(&mut self, _: &str, expected: Option<Version>, wanted: &Record) -> Result<SwapOutcome, RegisterError> {
        self.1.pass(true);
        let found = self.look()?;
        if self.0.lock().unwrap().is_full {
            return Err(RegisterError::Setup("it is full".to_owned()));
        }
        if found.as_ref().map(|current| current.version) != expected {
            return Ok(SwapOutcome::Lost(found));
        }
        Ok(SwapOutcome::Won(self.put(wanted.clone()).version))
    }

    fn remark(&self) -> Option<String> {
        self.0.lock().unwrap().remark.clone()
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
