//! How lost packets come together: one by one, or in bursts.

/// Lost packets and their runs, in the order in which they were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LossRuns {
    packets: u64,
    lost: u64,
    bursts: u64,
    longest: u64,
    current: u64,
}

impl LossRuns {
    /// The next packet was there when it was needed, or not.
    pub fn next(&mut self, there: bool) {
        if there {
            self.packets += 1;
            self.current = 0;
        } else {
            self.next_lost(1);
        }
    }

    /// The next packets, so many of them, were all lost.
    pub fn next_lost(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.packets = self.packets.saturating_add(count);
        self.lost = self.lost.saturating_add(count);
        self.bursts += u64::from(self.current == 0);
        self.current = self.current.saturating_add(count);
        self.longest = self.longest.max(self.current);
    }

    pub fn packets(&self) -> u64 {
        self.packets
    }

    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The most packets that were lost one after the other.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    pub fn lost_percent(&self) -> f64 {
        if self.packets == 0 { 0.0 } else { 100.0 * self.lost as f64 / self.packets as f64 }
    }

    /// The mean length of the bursts, against what independent losses of the same share would have, which is
    /// 1/(1 - share) (ITU-T G.107 section 7.5). None if nothing was lost, or everything.
    pub fn burst_ratio(&self) -> Option<f64> {
        let share = self.lost_percent() / 100.0;
        let is_some = self.lost > 0 && self.lost < self.packets;
        is_some.then(|| self.lost as f64 / self.bursts as f64 * (1.0 - share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(packets: &str) -> LossRuns {
        let mut runs = LossRuns::default();
        packets.chars().for_each(|packet| runs.next(packet == '1'));
        runs
    }

    /// The example of Chydzinski and others, "Burst Ratio of Packet Losses in Individual Network Flows",
    /// Informatica 2022, section 1: of 16 packets 4 are lost, in runs of 1 and 3.
    #[test]
    fn the_published_example_has_a_ratio_of_one_and_a_half() {
        let example = runs("1101111100011111");
        assert!((example.burst_ratio().unwrap() - 2.0 / (1.0 / 0.75)).abs() < 1e-12);
        assert_eq!((example.lost(), example.longest(), example.packets()), (4, 3, 16));
    }

    #[test]
    fn many_at_once_are_as_many_one_by_one() {
        let mut at_once = runs("1101");
        at_once.next_lost(5);
        at_once.next_lost(2);
        at_once.next(true);
        assert_eq!(at_once, runs("110100000001"));
    }

    #[test]
    fn without_loss_or_with_nothing_else_there_is_no_ratio() {
        assert_eq!([runs(""), runs("111"), runs("000")].map(|runs| runs.burst_ratio()), [None; 3]);
    }
}
