//! QEMU's control protocol (QMP): JSON objects, one a line, over a unix socket.
//!
//! Commands can be sent ahead ([`Qmp::begin`]) and their answers fetched later ([`Qmp::finish`]): QEMU works
//! on them one after the other, so that the next one does not wait for our turn. Every call has a time-out.
//!
//! QEMU reads a command byte by byte, with a round of its event loop for each (monitor/qmp.c;
//! chardev/char-socket.c, `tcp_chr_read`, reads what the monitor takes, which is one byte): some 3 us each,
//! 0.1 to 0.3 ms a command. So commands are written short, and one whose moment is known in advance can be
//! sent but for its end ([`Qmp::load`]). With the capability `oob` QEMU reads the next command while it works
//! on one; without it, only when it has answered.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

use crate::event::{Event, Shutdown};

/// A line longer than this is no answer of QEMU's.
const LINE_BYTES_MAX: usize = 16 << 20;
const READ_BYTES: usize = 64 << 10;
/// What ends a command, and what makes a loaded one into a command that QEMU does not know.
const END: &str = "\"}\n";
const UNLOADING_END: &str = "-unloaded\"}\n";

/// Why a command has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QmpError {
    #[error("QEMU's control socket cannot be {action}")]
    Socket { action: &'static str, source: std::io::Error },
    /// QEMU closed the socket: mostly it has ended.
    #[error("QEMU closed its control socket while `{waiting_for}` was awaited")]
    Closed {
        /// The command or event that was waited for.
        waiting_for: String,
    },
    #[error("QEMU gave no answer to `{waiting_for}` within {} ms", waited.as_millis())]
    TimedOut {
        /// The command or event that was waited for.
        waiting_for: String,
        waited: Duration,
    },
    #[error("QEMU refused `{command}`: {description} ({class})")]
    Refused {
        command: String,
        /// QMP's class of the error, as `GenericError`.
        class: String,
        description: String,
    },
    #[error("QEMU's control socket gave what is no QMP: {what}")]
    Protocol {
        /// What it was, shortened.
        what: String,
    },
}

/// A command whose answer is still to be fetched.
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "the answer must be fetched with `finish`"]
pub struct Ticket {
    number: u64,
    command: String,
}

/// A command that QEMU has but for its end.
struct Loaded {
    arguments: Value,
    ticket: Ticket,
}

/// A connection to a QEMU.
pub struct Qmp {
    socket: UnixStream,
    received: Vec<u8>,
    answers: HashMap<u64, Value>,
    events: VecDeque<Event>,
    shutdown: Option<Shutdown>,
    next_number: u64,
    loaded: Option<Loaded>,
    timeout: Duration,
    greeting: Value,
}

impl Qmp {
    /// Connect to a socket of QEMU's and negotiate.
    pub fn connect(path: &Path, timeout: Duration) -> Result<Self, QmpError> {
        let socket = UnixStream::connect(path).map_err(|source| QmpError::Socket { action: "connected to", source })?;
        Self::over(socket, timeout)
    }

    /// Negotiate on a socket that is connected; `timeout` holds for each later call too.
    pub fn over(socket: UnixStream, timeout: Duration) -> Result<Self, QmpError> {
        let mut qmp = Self {
            socket,
            received: Vec::new(),
            answers: HashMap::new(),
            events: VecDeque::new(),
            shutdown: None,
            next_number: 1,
            loaded: None,
            timeout,
            greeting: Value::Null,
        };
        let greeting = qmp.next_object("greeting", Instant::now() + timeout)?;
        if greeting.get("QMP").is_none() {
            return Err(QmpError::Protocol { what: shortened(&greeting.to_string()) });
        }
        let capabilities = greeting["QMP"]["capabilities"].as_array();
        let reads_ahead = capabilities.is_some_and(|known| known.iter().any(|one| one == "oob"));
        qmp.greeting = greeting;
        qmp.execute("qmp_capabilities", if reads_ahead { json!({"enable": ["oob"]}) } else { json!({}) })?;
        Ok(qmp)
    }

    /// How long each call waits.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// How long each call waits, and what goes beside it; never zero, which sockets would take for ever.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.max(Duration::from_millis(1))
    }

    /// QEMU's version with its package, as `7.2.22 (Debian 1:7.2+dfsg-7)`: the same on both sides or no
    /// protection.
    pub fn version(&self) -> String {
        let version = &self.greeting["QMP"]["version"];
        let number = |part: &str| version["qemu"][part].as_u64().unwrap_or_default();
        let text = format!("{}.{}.{}", number("major"), number("minor"), number("micro"));
        match version["package"].as_str().map(str::trim) {
            Some(package) if !package.is_empty() => format!("{text} ({package})"),
            _ => text,
        }
    }

    /// Run a command and wait for its answer.
    pub fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, QmpError> {
        let ticket = self.begin(command, arguments)?;
        self.finish(ticket)
    }

    /// Run a command of the human monitor, for what QMP has no word for.
    pub fn execute_human(&mut self, command_line: &str) -> Result<String, QmpError> {
        let answer = self.execute("human-monitor-command", json!({"command-line": command_line}))?;
        match answer {
            Value::String(text) => Ok(text),
            other => Err(QmpError::Protocol { what: shortened(&other.to_string()) }),
        }
    }

    /// Send a command without waiting for its answer.
    #[expect(clippy::needless_pass_by_value, reason = "arguments are made for the call")]
    pub fn begin(&mut self, command: &str, arguments: Value) -> Result<Ticket, QmpError> {
        match self.loaded.take() {
            Some(Loaded { arguments: sent, ticket }) if ticket.command == command && sent == arguments => {
                self.send(command, END)?;
                return Ok(ticket);
            }
            Some(Loaded { ticket, .. }) => self.unload(ticket)?,
            None => {}
        }
        let (ticket, mut line) = self.head(command, &arguments);
        line.push_str(END);
        self.send(command, &line)?;
        Ok(ticket)
    }

    /// Give QEMU a descriptor, which later commands call `name`; each is used up by one of them.
    pub fn begin_giving(&mut self, name: &str, descriptor: BorrowedFd<'_>) -> Result<Ticket, QmpError> {
        if let Some(Loaded { ticket, .. }) = self.loaded.take() {
            self.unload(ticket)?;
        }
        let (ticket, mut line) = self.head("getfd", &json!({"fdname": name}));
        line.push_str(END);
        // It travels with the first byte. QEMU keeps it until the command is read, whatever comes after.
        let (first, rest) = line.split_at(1);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let first = [IoSlice::new(first.as_bytes())];
        let sent = sendmsg(&self.socket, &first, &mut control, SendFlags::NOSIGNAL);
        sent.map_err(|errno| self.sending_failed("getfd", errno.into()))?;
        self.send("getfd", rest)?;
        Ok(ticket)
    }

    /// Send a command but for its end, so that [`Qmp::begin`] of the same one has little left to send. Any
    /// other command that comes first costs a round trip more.
    pub fn load(&mut self, command: &str, arguments: Value) -> Result<(), QmpError> {
        if let Some(Loaded { ticket, .. }) = self.loaded.take() {
            self.unload(ticket)?;
        }
        let (ticket, line) = self.head(command, &arguments);
        self.send(command, &line)?;
        self.loaded = Some(Loaded { arguments, ticket });
        Ok(())
    }

    /// Have QEMU refuse a command that was loaded.
    fn unload(&mut self, ticket: Ticket) -> Result<(), QmpError> {
        self.send(&ticket.command, UNLOADING_END)?;
        match self.finish(ticket) {
            Ok(_) | Err(QmpError::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A command without its [`END`]; the name is the last of it.
    fn head(&mut self, command: &str, arguments: &Value) -> (Ticket, String) {
        let number = self.next_number;
        self.next_number += 1;
        let arguments = match arguments.as_object() {
            Some(object) if object.is_empty() => String::new(),
            _ => format!("\"arguments\":{arguments},"),
        };
        let line = format!("{{{arguments}\"id\":{number},\"execute\":\"{command}");
        (Ticket { number, command: command.into() }, line)
    }

    fn send(&mut self, command: &str, text: &str) -> Result<(), QmpError> {
        let within = Some(self.timeout());
        let sent = self.socket.set_write_timeout(within).and_then(|()| self.socket.write_all(text.as_bytes()));
        sent.map_err(|source| self.sending_failed(command, source))
    }

    fn sending_failed(&self, command: &str, source: std::io::Error) -> QmpError {
        match source.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => QmpError::Closed { waiting_for: command.into() },
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                QmpError::TimedOut { waiting_for: command.into(), waited: self.timeout }
            }
            _ => QmpError::Socket { action: "written to", source },
        }
    }

    /// Wait for the answer to a command.
    pub fn finish(&mut self, ticket: Ticket) -> Result<Value, QmpError> {
        let deadline = Instant::now() + self.timeout;
        let mut answer = loop {
            if let Some(answer) = self.answers.remove(&ticket.number) {
                break answer;
            }
            let object = self.next_object(&ticket.command, deadline)?;
            self.file(object)?;
        };
        if let Some(error) = answer.get("error") {
            let text = |field: &str| error[field].as_str().unwrap_or("?").to_owned();
            return Err(QmpError::Refused { command: ticket.command, class: text("class"), description: text("desc") });
        }
        Ok(answer["return"].take())
    }

    /// Take all events that have come, also those that still lie in the socket. Does not wait.
    pub fn events(&mut self) -> Result<Vec<Event>, QmpError> {
        self.socket.set_nonblocking(true).map_err(|source| QmpError::Socket { action: "read", source })?;
        let drained = self.drain();
        self.socket.set_nonblocking(false).map_err(|source| QmpError::Socket { action: "read", source })?;
        drained?;
        Ok(self.events.drain(..).collect())
    }

    /// Why QEMU ends, or has ended; none if it has not said so. Does not wait. Whoever takes the events takes
    /// nothing of it.
    pub fn shutdown(&mut self) -> Option<Shutdown> {
        if self.socket.set_nonblocking(true).is_ok() {
            // The socket of a QEMU that has ended closes after what it wrote last.
            let _ = self.drain();
            let _ = self.socket.set_nonblocking(false);
        }
        self.shutdown.clone()
    }

    /// Wait for an event for which `wanted` holds, and take it. Others stay.
    pub fn wait_for_event(&mut self, what: &str, wanted: impl Fn(&Event) -> bool) -> Result<Event, QmpError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            let position = self.events.iter().position(&wanted);
            if let Some(event) = position.and_then(|position| self.events.remove(position)) {
                return Ok(event);
            }
            let object = self.next_object(what, deadline)?;
            self.file(object)?;
        }
    }

    /// Forget the events that came up to now.
    pub(crate) fn forget_events(&mut self, name: &str) {
        self.events.retain(|event| event.name != name);
    }

    fn drain(&mut self) -> Result<(), QmpError> {
        loop {
            while let Some(object) = self.buffered_object()? {
                self.file(object)?;
            }
            match self.receive() {
                Ok(0) => return Err(QmpError::Closed { waiting_for: "events".into() }),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(source) => return Err(QmpError::Socket { action: "read", source }),
            }
        }
    }

    fn file(&mut self, mut object: Value) -> Result<(), QmpError> {
        if let Some(name) = object["event"].as_str() {
            let name = name.to_owned();
            let event = Event { name, data: object["data"].take() };
            if let Some(shutdown) = Shutdown::told_by(&event) {
                self.shutdown = Some(shutdown);
            }
            self.events.push_back(event);
            return Ok(());
        }
        match object["id"].as_u64() {
            Some(number) => {
                self.answers.insert(number, object);
                Ok(())
            }
            None => Err(QmpError::Protocol { what: shortened(&object.to_string()) }),
        }
    }

    fn next_object(&mut self, waiting_for: &str, deadline: Instant) -> Result<Value, QmpError> {
        loop {
            if let Some(object) = self.buffered_object()? {
                return Ok(object);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(QmpError::TimedOut { waiting_for: waiting_for.into(), waited: self.timeout });
            }
            let failed = |source| QmpError::Socket { action: "read", source };
            self.socket.set_read_timeout(Some(left)).map_err(failed)?;
            match self.receive() {
                Ok(0) => return Err(QmpError::Closed { waiting_for: waiting_for.into() }),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionReset => {
                        return Err(QmpError::Closed { waiting_for: waiting_for.into() });
                    }
                    _ => return Err(failed(error)),
                },
            }
        }
    }

    fn receive(&mut self) -> std::io::Result<usize> {
        let filled = self.received.len();
        self.received.resize(filled + READ_BYTES, 0);
        let outcome = self.socket.read(&mut self.received[filled..]);
        self.received.truncate(filled + outcome.as_ref().map_or(0, |read| *read));
        outcome
    }

    fn buffered_object(&mut self) -> Result<Option<Value>, QmpError> {
        let Some(end) = self.received.iter().position(|&byte| byte == b'\n') else {
            if self.received.len() > LINE_BYTES_MAX {
                return Err(QmpError::Protocol { what: format!("a line of more than {LINE_BYTES_MAX} bytes") });
            }
            return Ok(None);
        };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        match serde_json::from_slice::<Value>(&line) {
            Ok(object) if object.is_object() => Ok(Some(object)),
            _ => Err(QmpError::Protocol { what: shortened(&String::from_utf8_lossy(&line)) }),
        }
    }
}

fn shortened(text: &str) -> String {
    let mut shown: String = text.trim().chars().take(80).collect();
    if shown.len() < text.trim().len() {
        shown.push_str("...");
    }
    shown
}
