//! Numbers of seven bits a byte, low bits first, the top bit set on all but the last byte (as in LEB128).

pub fn push(bytes: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            bytes.push(low & 0x7f);
            return;
        }
        bytes.push(low | 0x80);
    }
}

/// Takes a number from the front of `bytes`; `None` if they end early or the number has more than 64 bits.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers: Vec<u64>) {
            let mut bytes = Vec::new();
            for &number in &numbers {
                push(&mut bytes, number);
            }
            let mut rest = bytes.as_slice();
            for number in numbers {
                prop_assert_eq!(take(&mut rest), Some(number));
            }
            prop_assert_eq!(take(&mut rest), None);
        }
    }

    #[test]
    fn more_than_64_bits_are_refused() {
        assert_eq!(take(&mut [0xff; 9].as_slice()), None);
        assert_eq!(take(&mut [[0xff; 9].as_slice(), &[0x01]].concat().as_slice()), Some(u64::MAX));
        assert_eq!(take(&mut [[0xff; 9].as_slice(), &[0x02]].concat().as_slice()), None);
        assert_eq!(take(&mut [0xff; 11].as_slice()), None);
    }
}
