//! What a probe says, and what its answer proves: a value of the counter's, or an echo.

use crate::blackout::pace::Pace;
use crate::counter::protocol::{Answer, Request};
use crate::judge::{Judge, Violation};

/// What echoes of ours begin with.
const ECHO_MAGIC: [u8; 8] = *b"STECHO01";

const ECHO_HEADER_BYTES: usize = 8;

/// The type of an echo request and reply (RFC 792, RFC 4443).
const ECHO_V4: (u8, u8) = (8, 0);
const ECHO_V6: (u8, u8) = (128, 129);

/// An answer to a probe.
#[derive(Debug, PartialEq, Eq)]
pub struct Heard {
    pub number: u64,
    /// What is wrong with it.
    pub violations: Vec<Violation>,
}

/// One language of probes.
pub trait Asking: Send {
    /// A probe, which is due then.
    fn ask(&self, number: u64, due_ns: u64) -> Vec<u8>;

    /// Whether this answers one, and which.
    fn hear(&mut self, bytes: &[u8], pace: &Pace) -> Option<Heard>;

    /// The last value that it was told; none where values are no part of it.
    fn last_value(&self) -> Option<u64>;
}

/// Each probe asks for the value after the last that was told; to the counter all but the first of them are copies. So
/// they may be sent while others are under way, and lost.
pub struct CounterAsking {
    client: u64,
    judge: Judge,
    value: u64,
    /// Only the answer to a probe of this number or a later one is news.
    news_from: u64,
}

impl CounterAsking {
    pub fn new(client: u64) -> Self {
        Self { client, judge: Judge::new(client), value: 0, news_from: 0 }
    }

    fn wanted(&self) -> Request {
        self.judge.next_request(0)
    }
}

impl Asking for CounterAsking {
    fn ask(&self, _number: u64, due_ns: u64) -> Vec<u8> {
        Request { sent_ns: due_ns, ..self.wanted() }.encode().to_vec()
    }

    fn hear(&mut self, bytes: &[u8], pace: &Pace) -> Option<Heard> {
        let answer = Answer::decode(bytes).ok().filter(|answer| answer.client == self.client)?;
        let number = pace.number(answer.sent_ns)?;
        let is_news = number >= self.news_from && answer.sequence == self.wanted().sequence;
        let violations = if is_news {
            self.value = answer.applied;
            self.news_from = pace.next();
            self.judge.judge(&answer)
        } else {
            Vec::new()
        };
        Some(Heard { number, violations })
    }

    fn last_value(&self) -> Option<u64> {
        Some(self.value)
    }
}

/// ICMP echo: whoever has an address answers it, and promises nothing.
pub struct EchoAsking {
    client: u64,
    is_v6: bool,
    /// A raw socket gives the header of IPv4 too, and everybody's packets.
    is_raw: bool,
}

impl EchoAsking {
    pub fn new(client: u64, is_v6: bool, is_raw: bool) -> Self {
        Self { client, is_v6, is_raw }
    }

    fn kinds(&self) -> (u8, u8) {
        if self.is_v6 { ECHO_V6 } else { ECHO_V4 }
    }
}

impl Asking for EchoAsking {
    fn ask(&self, number: u64, _due_ns: u64) -> Vec<u8> {
        let [.., high, low] = self.client.to_be_bytes();
        let [.., sequence_high, sequence_low] = number.to_be_bytes();
        let mut packet = vec![self.kinds().0, 0, 0, 0, high, low, sequence_high, sequence_low];
        packet.extend(ECHO_MAGIC);
        packet.extend(self.client.to_be_bytes());
        packet.extend(number.to_be_bytes());
        // The kernel does it for sockets of ICMP, and for IPv6 in any case.
        if self.is_raw && !self.is_v6 {
            let sum = internet_checksum(&packet).to_be_bytes();
            packet[2..4].copy_from_slice(&sum);
        }
        packet
    }

    fn hear(&mut self, bytes: &[u8], pace: &Pace) -> Option<Heard> {
        let header = match bytes.first() {
            Some(first) if self.is_raw && !self.is_v6 => usize::from(first & 0xf) * 4,
            _ => 0,
        };
        let packet = bytes.get(header..)?;
        if *packet.first()? != self.kinds().1 {
            return None;
        }
        let rest = packet.get(ECHO_HEADER_BYTES..)?.strip_prefix(&ECHO_MAGIC)?;
        let rest = rest.strip_prefix(&self.client.to_be_bytes())?;
        let number = u64::from_be_bytes(rest.try_into().ok()?);
        (number < pace.next()).then_some(Heard { number, violations: Vec::new() })
    }

    fn last_value(&self) -> Option<u64> {
        None
    }
}

/// RFC 1071
fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Ledger;
    use crate::counter::protocol::{Operation, Outcome};

    /// What a counter with this ledger says.
    fn answer(ledger: &mut Ledger, question: &[u8]) -> Vec<u8> {
        let request = Request::decode(question).unwrap();
        assert_eq!(request.operation, Operation::Count);
        let answer = ledger.count(request.client, request.sequence).answer(&request);
        assert_ne!(answer.outcome, Outcome::Full);
        answer.encode().to_vec()
    }

    struct Talk {
        asking: CounterAsking,
        pace: Pace,
    }

    impl Talk {
        fn new() -> Self {
            Self { asking: CounterAsking::new(5), pace: Pace::new(0, 100) }
        }

        fn ask(&mut self) -> Vec<u8> {
            let turn = self.pace.take(self.pace.next_due_ns()).unwrap();
            self.asking.ask(turn.number, turn.due_ns)
        }

        fn hear(&mut self, bytes: &[u8]) -> Heard {
            self.asking.hear(bytes, &self.pace).unwrap()
        }
    }

    #[test]
    fn probes_may_be_under_way_together_lost_and_come_in_any_order() {
        let (mut talk, mut ledger) = (Talk::new(), Ledger::default());
        let questions: Vec<Vec<u8>> = (0..10).map(|_| talk.ask()).collect();
        let mut answers: Vec<Vec<u8>> = questions.iter().skip(2).map(|one| answer(&mut ledger, one)).collect();
        answers.reverse();
        answers.push(answers[0].clone());
        for answer in &answers {
            assert_eq!(talk.hear(answer).violations, []);
        }
        assert_eq!(talk.asking.last_value(), Some(1));
        let next = talk.ask();
        assert_eq!(talk.hear(&answer(&mut ledger, &next)), Heard { number: 10, violations: Vec::new() });
        assert_eq!(talk.asking.last_value(), Some(2));
    }

    #[test]
    fn what_was_forgotten_is_told_once() {
        let (mut talk, mut ledger) = (Talk::new(), Ledger::default());
        for _ in 0..5 {
            let question = talk.ask();
            assert_eq!(talk.hear(&answer(&mut ledger, &question)).violations, []);
        }
        let mut older = Ledger::default();
        (1..=3).for_each(|value| assert_eq!(older.count(5, value).applied, value));
        let questions = [talk.ask(), talk.ask()];
        let first = talk.hear(&answer(&mut older, &questions[0])).violations;
        assert_eq!(first[0], Violation::Forgotten { acknowledged: 5, applied: 3 });
        assert_eq!(talk.hear(&answer(&mut older, &questions[1])).violations, []);
        let next = talk.ask();
        assert_eq!(talk.hear(&answer(&mut older, &next)).violations, []);
        assert_eq!(talk.asking.last_value(), Some(4));
    }

    #[test]
    fn others_answers_are_not_ours() {
        let (mut talk, mut ledger) = (Talk::new(), Ledger::default());
        let stranger = Request { operation: Operation::Count, client: 6, sequence: 1, sent_ns: 0 };
        let foreign = answer(&mut ledger, &stranger.encode());
        talk.ask();
        assert_eq!(talk.asking.hear(&foreign, &talk.pace), None);
        assert_eq!(talk.asking.hear(b"SSH-2.0", &talk.pace), None);
    }

    #[test]
    fn an_echo_is_told_from_all_others() {
        for (is_v6, is_raw) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut asking = EchoAsking::new(7, is_v6, is_raw);
            let mut pace = Pace::new(0, 100);
            pace.take(3 * 100).unwrap();
            let mut reply = asking.ask(3, 300);
            if is_raw && !is_v6 {
                assert_eq!(internet_checksum(&reply), 0, "a right one sums up to nothing");
                reply.splice(0..0, [0x45; 20]);
            }
            assert_eq!(asking.hear(&reply, &pace), None, "a request is no reply");
            let kind = if is_raw && !is_v6 { 20 } else { 0 };
            reply[kind] = asking.kinds().1;
            assert_eq!(asking.hear(&reply, &pace), Some(Heard { number: 3, violations: Vec::new() }));
            assert_eq!(EchoAsking::new(8, is_v6, is_raw).hear(&reply, &pace), None);
            for length in 0..reply.len() {
                assert_eq!(asking.hear(&reply[..length], &pace), None);
            }
        }
    }
}
