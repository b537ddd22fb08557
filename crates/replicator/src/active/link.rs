//! The link to the standby.

use std::time::Duration;

use stealtime_outputhold::LearnedAddresses;
use stealtime_shipping::{Confirmed, LinkReceiver, LinkSender, Message};
use stealtime_succession::Term;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinHandle};

use super::Input;
use crate::addresses;
use crate::clock::{nanoseconds, now};
use crate::spec::StandbyHost;

/// How long a link may take to write what waits when it is closed.
const CLOSE_WITHIN: Duration = Duration::from_millis(200);

/// The link, and what its standby knows.
pub struct StandbyLink {
    open: Option<OpenLink>,
    /// Of the newest one: what another brought is for nobody.
    number: u64,
    /// When the last heartbeat that came back was sent.
    last_echo: Option<Duration>,
    /// When the standby last said that its register names it, and what it said.
    confirmed_at: Duration,
    port_fault: Option<String>,
    /// Whether the standby's host is to go down.
    is_leaving: bool,
    /// What the guest has gone by on the network, here and before.
    addresses: LearnedAddresses,
    /// Whether the standby knows them all.
    addresses_told: bool,
    closing: Vec<JoinHandle<()>>,
    inputs: UnboundedSender<Input>,
}

struct OpenLink {
    host: StandbyHost,
    /// What is not as wanted with that host, as long as it is this one.
    remarks: Vec<String>,
    sender: LinkSender,
    reader: AbortHandle,
}

impl StandbyLink {
    /// Not open yet.
    pub fn new(inputs: UnboundedSender<Input>, addresses: LearnedAddresses) -> Self {
        let (open, number, last_echo) = (None, 0, None);
        let (confirmed_at, port_fault) = (Duration::ZERO, None);
        Self {
            open,
            number,
            last_echo,
            confirmed_at,
            port_fault,
            is_leaving: false,
            addresses,
            addresses_told: false,
            closing: Vec::new(),
            inputs,
        }
    }

    pub fn open(&mut self, host: StandbyHost, remarks: Vec<String>, sender: LinkSender, receiver: LinkReceiver) {
        self.number += 1;
        let reader = tokio::spawn(read(receiver, self.number, self.inputs.clone())).abort_handle();
        self.open = Some(OpenLink { host, remarks, sender, reader });
        // What the last standby said was of its own host.
        self.port_fault = None;
        self.is_leaving = false;
        self.addresses_told = false;
    }

    /// Whether it is this one that is open.
    pub fn is(&self, number: u64) -> bool {
        self.open.is_some() && self.number == number
    }

    /// Whom it goes to; None: it is not open.
    pub fn host(&self) -> Option<&StandbyHost> {
        self.open.as_ref().map(|open| &open.host)
    }

    /// What is not as wanted with the standby's host.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        self.open.iter().flat_map(|open| open.remarks.iter().cloned())
    }

    /// A heartbeat came back.
    pub fn echoed(&mut self, sent: Duration) {
        self.last_echo = Some(sent);
    }

    /// The standby has seen that its register names it.
    pub fn confirmed(&mut self, confirmed: Confirmed) {
        self.confirmed_at = now();
        self.port_fault = confirmed.port_fault;
    }

    /// Why the guest would reach nobody from the standby's host, if that was so when it spoke last.
    pub fn port_fault(&self) -> Option<&str> {
        self.port_fault.as_deref()
    }

    /// How long ago that was.
    pub fn confirmed_age(&self) -> Duration {
        now().saturating_sub(self.confirmed_at)
    }

    /// The standby says whether its host is to go down.
    pub fn leaves(&mut self, is_leaving: bool) {
        self.is_leaving = is_leaving;
    }

    /// Whether there is a standby, and its host is to go down.
    pub fn is_leaving(&self) -> bool {
        self.open.is_some() && self.is_leaving
    }

    /// How old the last heartbeat that came back is.
    pub fn echo_age_ns(&self) -> Option<u64> {
        self.last_echo.map(|sent| nanoseconds(now().saturating_sub(sent)))
    }

    /// Tells whether the message is on its way.
    pub fn send(&self, message: &Message) -> bool {
        let Some(open) = &self.open else { return false };
        let sent = open.sender.try_send(message);
        let is_sent = sent.is_ok();
        if let Err(reason) = sent {
            let _ = self.inputs.send(Input::LinkClosed { link: self.number, reason });
        }
        is_sent
    }

    pub fn addresses(&self) -> &LearnedAddresses {
        &self.addresses
    }

    /// Tell the standby what the guest goes by on the network, if it does not know.
    pub fn tell_addresses(&mut self, term: Term, learned: &LearnedAddresses) {
        let known = self.addresses.clone();
        self.addresses.merge(learned);
        if !self.addresses_told || self.addresses != known {
            let told = addresses::told(term, self.addresses.clone());
            self.addresses_told = self.send(&Message::Addresses(told));
        }
    }

    pub fn close(&mut self) {
        self.last_echo = None;
        let Some(open) = self.open.take() else { return };
        open.reader.abort();
        self.closing.push(tokio::spawn(async move {
            // What was said last, such as that the other side shall take over, should arrive; a link that
            // stands still must not keep the encoder.
            let _ = tokio::time::timeout(CLOSE_WITHIN, open.sender.close()).await;
            open.sender.abort();
        }));
    }

    /// Wait until all that were closed have ended.
    pub async fn ended(&mut self) {
        for closing in self.closing.drain(..) {
            let _ = closing.await;
        }
    }
}

async fn read(mut receiver: LinkReceiver, link: u64, inputs: UnboundedSender<Input>) {
    loop {
        let input = match receiver.receive().await {
            Ok(message) => Input::Message { link, message },
            Err(reason) => Input::LinkClosed { link, reason },
        };
        let is_over = matches!(input, Input::LinkClosed { .. });
        if inputs.send(input).is_err() || is_over {
            return;
        }
    }
}
