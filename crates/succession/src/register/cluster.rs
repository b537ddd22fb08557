//! Whether the servers that a configuration names are of one etcd cluster: two hosts that each swap in a cluster of
//! their own would both win.
//!
//! Each answer names its cluster, but by a number that is made of the peer URLs and the token it was set up with
//! (etcd 3.5, `computeMemberId` and `genID` in `server/etcdserver/api/membership`). Servers that were installed alike,
//! each a cluster of one, have the same. So what they show is compared, too: reads are linearizable, and in one cluster
//! revisions of the whole store only rise, whichever server is asked, and what a revision holds is the same at all.
//!
//! What is believed, and never anything else:
//! - servers that agree and are more than half of those that are named. Two hosts with the same list cannot find two
//!   such groups;
//! - else those that go on from what was known; a server that answers for the first time while the others are silent
//!   does if it is another member of the same cluster, and has the record that was known;
//! - else, where nothing was known yet, those that answer, if they agree: a server that is silent is no disagreement.

use super::answers::Sight;

impl Sight {
    /// Why a sight that was asked for after this one was there is of another cluster.
    fn contradicted_by(&self, later: &Self) -> Option<String> {
        if self.cluster != later.cluster {
            return Some(format!("clusters {:x} and {:x}", self.cluster, later.cluster));
        }
        if later.revision < self.revision {
            return Some(format!("revision {} after revision {}", later.revision, self.revision));
        }
        // What has not changed since is the same; a record that is gone was removed in between, if anything was done.
        let unchanged =
            later.record.as_ref().map_or(later.revision == self.revision, |it| it.mod_revision <= self.revision);
        let differs = self.vm == later.vm && unchanged && self.record != later.record;
        differs.then(|| format!("two records of {} up to revision {}", self.vm, self.revision))
    }
}

/// What a server showed twice, the second time after all had shown something once; or why it did not.
pub(super) type Seen = Result<[Sight; 2], String>;

fn disagreement(one: &[Sight; 2], other: &[Sight; 2]) -> Option<String> {
    one[0].contradicted_by(&other[1]).or_else(|| other[0].contradicted_by(&one[1]))
}

/// The servers that are named, and what is known of them.
#[derive(Debug)]
pub(super) struct Cluster {
    names: Vec<String>,
    standings: Vec<Standing>,
    known: Option<Known>,
    /// Why nobody is believed.
    doubt: Option<String>,
    /// Whether an answer was not believed since the servers were compared.
    refused: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    Unknown,
    /// Of the cluster, with this number.
    Member(u64),
    /// Not believed, for this reason.
    Foreign(String),
}

#[derive(Debug)]
struct Known {
    /// Who answered last.
    at: usize,
    newest: Sight,
}

impl Cluster {
    pub fn new(names: &[String]) -> Self {
        let standings = vec![Standing::Unknown; names.len()];
        Self { names: names.to_vec(), standings, known: None, doubt: None, refused: false }
    }

    /// With one server there is nothing to compare; that it went back is for the members to see.
    pub fn is_one_server(&self) -> bool {
        self.names.len() == 1
    }

    /// Whether the servers were compared, and some are believed.
    pub fn is_settled(&self) -> bool {
        self.is_one_server() || (self.known.is_some() && self.doubt.is_none())
    }

    /// Why nobody is believed.
    pub fn doubt(&self) -> Option<&str> {
        self.doubt.as_deref()
    }

    /// Why this server is not asked.
    pub fn why_not(&self, index: usize) -> Option<&str> {
        match &self.standings[index] {
            Standing::Foreign(why) => Some(why),
            Standing::Unknown | Standing::Member(_) => None,
        }
    }

    /// Who answered last; nobody else is told to change anything before it has shown what it holds.
    pub fn at(&self) -> Option<usize> {
        self.known.as_ref().map(|known| known.at)
    }

    pub fn answered_last(&self, index: usize) -> bool {
        self.is_one_server() || self.at() == Some(index)
    }

    /// Whether comparing them again might help a call that failed.
    pub fn wants_survey(&self) -> bool {
        self.refused || (0..self.names.len()).any(|index| self.why_not(index).is_some())
    }

    /// What an operator should know, although calls may succeed.
    pub fn remark(&self) -> Option<String> {
        if self.doubt.is_some() {
            return self.doubt.clone();
        }
        let foreign =
            (0..self.names.len()).filter_map(|index| Some(format!("{}: {}", self.names[index], self.why_not(index)?)));
        let foreign: Vec<_> = foreign.collect();
        (!foreign.is_empty()).then(|| foreign.join("; "))
    }

    /// Compare them anew, as if nothing was known.
    pub fn forget(&mut self) {
        *self = Self::new(&self.names);
    }

    /// Believe an answer, or say why not.
    pub fn believe(&mut self, index: usize, sight: Sight) -> Result<(), String> {
        if self.is_one_server() {
            return Ok(());
        }
        let fits = self.fits(index, &sight);
        match &fits {
            Ok(()) => {
                self.standings[index] = Standing::Member(sight.member);
                self.known = Some(Known { at: index, newest: sight });
            }
            Err(why) => {
                self.refused = true;
                if self.known.is_some() {
                    self.standings[index] = Standing::Foreign(why.clone());
                }
            }
        }
        fits
    }

    /// Whether an answer goes on from what is known.
    fn fits(&self, index: usize, sight: &Sight) -> Result<(), String> {
        let Some(Known { at, newest }) = &self.known else {
            return Err("it was not compared with the others yet".to_owned());
        };
        let last = &self.names[*at];
        if let Some(why) = newest.contradicted_by(sight) {
            return Err(self.other_cluster(*at, index, &why));
        }
        if index == *at {
            return Ok(());
        }
        let created = |sight: &Sight| sight.record.as_ref().map(|record| record.create_revision);
        if newest.vm == sight.vm && newest.record.is_some() && created(newest) != created(sight) {
            return Err(format!("it has not the record of {} that {last} has", sight.vm));
        }
        // Two names of one server, or two servers that were installed alike: that shows when both answer.
        let is_known = matches!(self.standings[index], Standing::Member(_));
        let namesake = self.standings.iter().position(|other| *other == Standing::Member(sight.member));
        match namesake.filter(|_| !is_known) {
            Some(namesake) => Err(format!(
                "it has the number of {} ({:x}) and has not answered at the same time yet",
                self.names[namesake], sight.member
            )),
            None => Ok(()),
        }
    }

    fn other_cluster(&self, ours: usize, theirs: usize, why: &str) -> String {
        if ours == theirs {
            format!("it is not the one that it was ({why})")
        } else {
            format!("it is of another cluster than {} ({why})", self.names[ours])
        }
    }

    /// Go on by what all servers have shown; `preferred` is the one that is asked first.
    pub fn judge(&mut self, seen: &[Seen], preferred: usize) {
        let alive: Vec<_> =
            seen.iter().enumerate().filter_map(|(index, seen)| Some((index, seen.as_ref().ok()?))).collect();
        if alive.is_empty() {
            return;
        }
        let mut groups: Vec<Vec<(usize, &[Sight; 2])>> = Vec::new();
        for one in alive {
            let agrees = |group: &&mut Vec<(usize, &[Sight; 2])>| {
                group.iter().all(|(_, other)| disagreement(other, one.1).is_none())
            };
            match groups.iter_mut().find(agrees) {
                Some(group) => group.push(one),
                None => groups.push(vec![one]),
            }
        }
        match self.choose(&groups) {
            Some(chosen) => self.settle(&groups[chosen], seen, preferred),
            None => self.doubt = Some(self.words_of_doubt(&groups, seen)),
        }
    }

    fn choose(&self, groups: &[Vec<(usize, &[Sight; 2])>]) -> Option<usize> {
        if let Some(majority) = groups.iter().position(|group| group.len() * 2 > self.names.len()) {
            return Some(majority);
        }
        let Some(Known { at, .. }) = &self.known else { return (groups.len() == 1).then_some(0) };
        let fits = |group: &Vec<(usize, &[Sight; 2])>, whom: &dyn Fn(usize) -> bool| {
            group.iter().any(|(index, sights)| whom(*index) && self.fits(*index, &sights[1]).is_ok())
        };
        if let Some(same) = groups.iter().position(|group| fits(group, &|index| index == *at)) {
            return Some(same);
        }
        let mut fitting = (0..groups.len()).filter(|group| fits(&groups[*group], &|_| true));
        fitting.next().filter(|_| fitting.next().is_none())
    }

    fn settle(&mut self, group: &[(usize, &[Sight; 2])], seen: &[Seen], preferred: usize) {
        let (first, shown) = group[0];
        let goes_on = self.known.as_ref().is_some_and(|known| known.newest.contradicted_by(&shown[1]).is_none());
        for (index, seen) in seen.iter().enumerate() {
            let standing = match seen {
                Ok(sights) if group.iter().any(|(member, _)| *member == index) => Standing::Member(sights[1].member),
                Ok(sights) => {
                    let why = disagreement(shown, sights).unwrap_or_else(|| "it agrees with some only".to_owned());
                    Standing::Foreign(self.other_cluster(first, index, &why))
                }
                Err(_) if goes_on => continue,
                Err(_) => Standing::Unknown,
            };
            self.standings[index] = standing;
        }
        let at = if group.iter().any(|(index, _)| *index == preferred) { preferred } else { first };
        let newest = group.iter().map(|(_, sights)| &sights[1]).max_by_key(|sight| sight.revision);
        self.known = newest.cloned().map(|newest| Known { at, newest });
        self.doubt = None;
        self.refused = false;
    }

    /// Who disagrees with whom, and who says nothing.
    fn words_of_doubt(&self, groups: &[Vec<(usize, &[Sight; 2])>], seen: &[Seen]) -> String {
        let (first, shown) = groups[0][0];
        let mut words = Vec::new();
        for (index, seen) in seen.iter().enumerate() {
            let why = match seen {
                Err(silent) => Some(silent.clone()),
                Ok(sights) if self.known.is_some() => self.fits(index, &sights[1]).err(),
                Ok(sights) => disagreement(shown, sights).map(|why| self.other_cluster(first, index, &why)),
            };
            words.extend(why.map(|why| format!("{}: {why}", self.names[index])));
        }
        words.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::register::answers::Pair;

    #[expect(clippy::unnecessary_wraps, reason = "as it stands in a sight")]
    fn pair(create_revision: u64, mod_revision: u64, value: &str) -> Option<Pair> {
        Some(Pair { create_revision, mod_revision, value: value.to_owned() })
    }

    /// Of the cluster 7; `member` is the server.
    fn sight(member: u64, revision: u64, record: Option<Pair>) -> Sight {
        Sight { cluster: 7, member, revision, vm: "vm".to_owned(), record }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as it was seen")]
    fn twice(sight: Sight) -> Seen {
        Ok([sight.clone(), sight])
    }

    fn silent() -> Seen {
        Err("it is silent".to_owned())
    }

    fn cluster(servers: usize) -> Cluster {
        Cluster::new(&["A", "B", "C"].map(str::to_owned)[..servers])
    }

    fn judged(seen: &[Seen]) -> Cluster {
        let mut cluster = cluster(seen.len());
        cluster.judge(seen, 0);
        cluster
    }

    #[test]
    fn what_one_cluster_can_show_is_no_contradiction() {
        let (none, first, second) = (None, pair(5, 5, "a"), pair(5, 9, "b"));
        for (earlier, later) in [
            ((3, &none), (3, &none)),
            ((3, &none), (6, &first)),
            ((6, &first), (6, &first)),
            ((6, &first), (8, &first)),
            ((6, &first), (9, &second)),
            ((9, &second), (10, &none)),
        ] {
            let [earlier, later] = [earlier, later].map(|(revision, record)| sight(1, revision, record.clone()));
            assert_eq!(earlier.contradicted_by(&later), None, "{earlier:?} {later:?}");
        }
    }

    #[test]
    fn what_one_cluster_cannot_show_is() {
        let (none, first, other) = (None, pair(5, 5, "a"), pair(5, 5, "b"));
        for (earlier, later) in [
            ((4, &none), (3, &none)),
            ((6, &none), (6, &first)),
            ((6, &none), (7, &first)),
            ((6, &first), (6, &none)),
            ((6, &first), (6, &other)),
            ((6, &first), (9, &other)),
            ((6, &first), (9, &pair(4, 5, "a"))),
        ] {
            let [earlier, later] = [earlier, later].map(|(revision, record)| sight(1, revision, record.clone()));
            assert!(earlier.contradicted_by(&later).is_some(), "{earlier:?} {later:?}");
        }
        let elsewhere = Sight { cluster: 8, ..sight(1, 3, None) };
        assert_eq!(sight(1, 3, None).contradicted_by(&elsewhere).unwrap(), "clusters 7 and 8");
        let other_vm = Sight { vm: "other".to_owned(), ..sight(1, 6, None) };
        assert_eq!(sight(1, 6, first).contradicted_by(&other_vm), None, "that is another record");
    }

    #[test]
    fn servers_that_differ_are_not_believed_and_named() {
        let cluster = judged(&[twice(sight(1, 3, None)), twice(sight(1, 8, None))]);
        assert!(!cluster.is_settled());
        assert_eq!(cluster.doubt().unwrap(), "B: it is of another cluster than A (revision 3 after revision 8)");
    }

    #[test]
    fn a_server_that_is_silent_is_no_disagreement() {
        let cluster = judged(&[silent(), twice(sight(2, 3, None)), silent()]);
        assert_eq!((cluster.is_settled(), cluster.at()), (true, Some(1)));
        let nobody = judged(&[silent(), silent()]);
        assert_eq!((nobody.is_settled(), nobody.doubt()), (false, None));
    }

    #[test]
    fn most_of_those_that_are_named_are_the_cluster_whatever_was_known() {
        let foreign = twice(sight(9, 100, None));
        let mut cluster = judged(&[foreign.clone(), silent(), silent()]);
        assert_eq!(cluster.at(), Some(0));
        cluster.judge(&[foreign, twice(sight(2, 3, None)), twice(sight(3, 3, None))], 0);
        assert_eq!(cluster.at(), Some(1));
        assert!(cluster.why_not(0).unwrap().starts_with("it is of another cluster than B"));
        assert!(cluster.is_settled() && cluster.remark().unwrap().starts_with("A: "));
    }

    #[test]
    fn another_member_goes_on_when_one_is_silent() {
        let mut cluster = judged(&[twice(sight(1, 5, pair(5, 5, "a"))), silent(), silent()]);
        assert!(!cluster.answered_last(1), "it is to show something first");
        cluster.believe(1, sight(2, 5, pair(5, 5, "a"))).unwrap();
        assert!(cluster.answered_last(1) && !cluster.answered_last(0));
        cluster.believe(2, sight(3, 9, pair(5, 9, "b"))).unwrap();
    }

    #[test]
    fn who_never_answered_beside_the_others_is_believed_with_another_number_and_the_known_record_only() {
        for (later, why) in [
            (sight(1, 9, pair(5, 9, "b")), "it has the number of A (1)"),
            (sight(2, 9, None), "it has not the record of vm that A has"),
            (sight(2, 9, pair(7, 9, "b")), "it has not the record of vm that A has"),
            (sight(2, 4, None), "it is of another cluster than A (revision 4 after revision 5)"),
            (
                Sight { cluster: 8, ..sight(2, 9, pair(5, 9, "b")) },
                "it is of another cluster than A (clusters 7 and 8)",
            ),
        ] {
            let mut cluster = judged(&[twice(sight(1, 5, pair(5, 5, "a"))), silent()]);
            let refusal = cluster.believe(1, later.clone()).unwrap_err();
            assert!(refusal.starts_with(why), "{refusal}");
            assert!(cluster.why_not(1).is_some() && cluster.wants_survey());
            // Silent as the other one still is, nobody is believed.
            cluster.judge(&[silent(), twice(later)], 0);
            assert!(!cluster.is_settled() && cluster.doubt().unwrap().starts_with("A: it is silent; B: "));
        }
    }

    #[test]
    fn a_second_name_of_one_server_may_be_used_once_both_have_answered() {
        let seen = || twice(sight(1, 5, pair(5, 5, "a")));
        let mut cluster = judged(&[seen(), seen()]);
        cluster.believe(1, sight(1, 6, pair(5, 6, "b"))).unwrap();
        assert_eq!(cluster.remark(), None);
    }

    #[test]
    fn one_that_was_believed_stays_when_another_one_comes_up() {
        let mut cluster = judged(&[twice(sight(1, 5, pair(5, 5, "a"))), silent()]);
        cluster.judge(&[twice(sight(1, 6, pair(5, 6, "b"))), twice(sight(1, 90, None))], 0);
        assert_eq!((cluster.is_settled(), cluster.at()), (true, Some(0)));
        assert!(cluster.why_not(1).is_some());
    }

    #[test]
    fn a_server_that_was_made_anew_is_not_followed_where_the_others_go_on() {
        let seen = |member| twice(sight(member, 50, pair(5, 50, "a")));
        let mut cluster = judged(&[seen(1), seen(2), seen(3)]);
        assert!(cluster.believe(0, sight(1, 1, None)).unwrap_err().starts_with("it is not the one that it was"));
        cluster.judge(&[twice(sight(1, 1, None)), seen(2), seen(3)], 0);
        assert_eq!((cluster.at(), cluster.why_not(0).is_some()), (Some(1), true));
    }

    #[test]
    fn a_cluster_that_was_restored_as_a_whole_is_believed() {
        let mut cluster = judged(&[twice(sight(1, 50, pair(5, 50, "a"))), twice(sight(2, 50, pair(5, 50, "a")))]);
        cluster.believe(0, sight(1, 9, pair(5, 9, "old"))).unwrap_err();
        let restored = |member| twice(Sight { cluster: 8, ..sight(member, 9, pair(5, 9, "old")) });
        cluster.judge(&[restored(1), restored(2)], 0);
        assert_eq!((cluster.is_settled(), cluster.remark()), (true, None));
    }

    #[test]
    fn one_server_alone_is_not_compared() {
        let mut cluster = cluster(1);
        for revision in [9, 3] {
            cluster.believe(0, sight(1, revision, None)).unwrap();
        }
        assert!(cluster.is_settled() && cluster.answered_last(0) && !cluster.wants_survey());
    }
}
