//! A message of the probe `net`, as it goes out and comes back.
//!
//! Little-endian: 8 bytes that say what it is, the number of the message, when its peer received it and when it
//! answered (both by the peer's time-stamp counter, zero on the way out), 8 bytes of who asked, its length in 4 bytes,
//! 4 bytes of zeros. Then filler.

use std::ops::Range;

/// The shortest message.
pub const HEAD_BYTES: usize = 48;

/// The longest: one UDP datagram.
pub const MOST_BYTES: usize = 65_000;

const KIND: &[u8; 8] = b"st-echo1";
const NUMBER: Range<usize> = 8..16;
const RECEIVED: Range<usize> = 16..24;
const ANSWERED: Range<usize> = 24..32;
const ASKER: Range<usize> = 32..40;
const LENGTH: Range<usize> = 40..44;

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    pub number: u64,
    pub asker: u64,
    /// By the peer's time-stamp counter.
    pub received: u64,
    pub answered: u64,
}

/// A message to send, whose number is still to be set.
pub fn message(bytes: usize, asker: u64) -> Vec<u8> {
    let mut message = vec![0x55; bytes.max(HEAD_BYTES)];
    message[..HEAD_BYTES].fill(0);
    message[..KIND.len()].copy_from_slice(KIND);
    message[ASKER].copy_from_slice(&asker.to_le_bytes());
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    message[LENGTH].copy_from_slice(&length.to_le_bytes());
    message
}

/// Gives a message its number.
#[inline(always)]
pub fn set_number(message: &mut [u8], number: u64) {
    message[NUMBER].copy_from_slice(&number.to_le_bytes());
}

/// How long the message is that begins so; nothing if none does.
pub fn length_of(head: &[u8]) -> Option<usize> {
    let length = head.get(LENGTH)?.try_into().ok().map(u32::from_le_bytes)?;
    let length = usize::try_from(length).ok()?;
    (head.starts_with(KIND) && (HEAD_BYTES..=MOST_BYTES).contains(&length)).then_some(length)
}

/// Makes a message its own answer.
#[inline(always)]
pub fn set_times(message: &mut [u8], received: u64, answered: u64) {
    message[RECEIVED].copy_from_slice(&received.to_le_bytes());
    message[ANSWERED].copy_from_slice(&answered.to_le_bytes());
}

/// Reads an answer; nothing if it is none.
#[inline(always)]
pub fn answer_of(message: &[u8]) -> Option<Answer> {
    length_of(message).filter(|&length| length == message.len())?;
    let number = |range: Range<usize>| message.get(range)?.try_into().ok().map(u64::from_le_bytes);
    Some(Answer {
        number: number(NUMBER)?,
        asker: number(ASKER)?,
        received: number(RECEIVED)?,
        answered: number(ANSWERED)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_with_its_number_and_the_times_of_its_peer() {
        let mut sent = message(64, 7);
        set_number(&mut sent, 41);
        assert_eq!((sent.len(), length_of(&sent)), (64, Some(64)));
        set_times(&mut sent, 100, 105);
        assert_eq!(answer_of(&sent), Some(Answer { number: 41, asker: 7, received: 100, answered: 105 }));
    }

    #[test]
    fn what_is_cut_or_no_message_of_ours_is_no_answer() {
        let sent = message(64, 7);
        assert_eq!(answer_of(&sent[..63]), None);
        assert_eq!(answer_of(&sent[..20]), None);
        let mut other = sent.clone();
        other[0] = 0;
        assert_eq!((length_of(&other), answer_of(&other)), (None, None));
        let mut endless = sent;
        endless[LENGTH].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(length_of(&endless), None);
    }
}
