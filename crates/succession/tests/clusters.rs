//! Endpoints that are not of one etcd cluster, on real servers: nobody may win in the other one.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod etcd_server;

use std::thread;
use std::time::Duration;

use etcd_server::{EtcdServer, PATIENCE};
use stealtime_succession::{
    EtcdConfig, EtcdLogin, EtcdRegister, MemberId, Record, Register, RegisterError, SwapOutcome, Term, Version,
    Versioned,
};

/// How long a server is waited for that is stopped.
const SHORT: Duration = Duration::from_secs(2);

fn record(host: &str, term: u64) -> Record {
    Record::alone(Term(term), MemberId::new(host, 1))
}

fn endpoint(server: &EtcdServer) -> String {
    server.config.endpoints[0].clone()
}

fn register(servers: [&EtcdServer; 2], patience: Duration) -> EtcdRegister {
    let endpoints = servers.map(endpoint).to_vec();
    EtcdRegister::open(&etcd_server::config(endpoints, None), patience).unwrap()
}

fn won(outcome: &SwapOutcome) -> Version {
    let SwapOutcome::Won(version) = outcome else { panic!("lost: {outcome:?}") };
    *version
}

/// Swap until it is known that it was done: on a busy machine an answer may come too late.
fn swap(register: &mut EtcdRegister, expected: Option<Version>, wanted: &Record) -> Version {
    loop {
        match register.swap("vm", expected, wanted) {
            Ok(SwapOutcome::Won(version)) => return version,
            Ok(SwapOutcome::Lost(Some(found))) if found.record == *wanted => return found.version,
            Ok(lost) => panic!("{lost:?}"),
            Err(error) => assert!(matches!(error, RegisterError::Unreachable { .. }), "{error}"),
        }
    }
}

/// What a list of servers holds, however long it takes until one of them can say so.
fn read(register: &mut EtcdRegister) -> Versioned {
    loop {
        match register.read("vm") {
            Ok(found) => return found.unwrap(),
            Err(error) => assert!(matches!(error, RegisterError::Unreachable { .. }), "{error}"),
        }
    }
}

/// Asks both pairs at the same time.
fn with_pairs(check: impl Fn(&EtcdServer, &EtcdServer) + Sync) {
    let Some(pairs) = EtcdServer::start_pairs() else { return };
    thread::scope(|scope| {
        for [one, other] in &pairs {
            scope.spawn(|| check(one, other));
        }
    });
}

/// What a server holds by itself.
fn held(server: &EtcdServer) -> Option<Record> {
    server.register(PATIENCE).read("vm").unwrap().map(|found| found.record)
}

fn assert_divided(error: &RegisterError, servers: [&EtcdServer; 2]) {
    assert!(matches!(error, RegisterError::Divided { .. }), "{error}");
    let text = error.to_string();
    for server in servers {
        assert!(text.contains(&endpoint(server)), "{text}");
    }
    assert!(text.contains("is of another cluster than") && text.contains("(hint: name the servers of one"), "{text}");
}

#[test]
fn two_hosts_do_not_both_win_in_a_cluster_each() {
    with_pairs(|one, other| {
        let mut a = register([one, other], PATIENCE);
        let mut b = register([other, one], PATIENCE);
        assert_divided(&a.swap("vm", None, &record("a", 1)).unwrap_err(), [one, other]);
        assert_divided(&b.swap("vm", None, &record("b", 1)).unwrap_err(), [one, other]);
        // Empty twins are found out by the change that one of them shows and the other does not.
        assert_eq!(held(other), None);
        for register in [&mut a, &mut b] {
            assert_divided(&register.read("vm").unwrap_err(), [one, other]);
        }
    });
}

#[test]
fn clusters_that_hold_something_are_told_apart_before_anything_is_changed() {
    with_pairs(|one, other| {
        won(&one.register(PATIENCE).swap("vm", None, &record("a", 1)).unwrap());
        won(&other.register(PATIENCE).swap("vm", None, &record("b", 1)).unwrap());
        let version = one.register(PATIENCE).read("vm").unwrap().unwrap().version;
        let error = register([one, other], PATIENCE).swap("vm", Some(version), &record("c", 2)).unwrap_err();
        assert_divided(&error, [one, other]);
        assert_eq!((held(one), held(other)), (Some(record("a", 1)), Some(record("b", 1))));
    });
}

#[test]
fn a_member_whose_server_dies_does_not_go_on_in_another_cluster() {
    with_pairs(|one, other| {
        // While the members begin, each reaches one server only, and cannot know.
        other.signal("-STOP");
        let mut a = register([one, other], SHORT);
        let first = swap(&mut a, None, &record("a", 1));
        other.signal("-CONT");
        one.signal("-STOP");
        let mut b = register([other, one], SHORT);
        swap(&mut b, None, &record("b", 1));
        for version in [Some(first), None] {
            let error = a.swap("vm", version, &record("a", 2)).unwrap_err().to_string();
            assert!(error.contains(&endpoint(other)) && error.contains(&endpoint(one)), "{error}");
        }
        let error = a.read("vm").unwrap_err().to_string();
        assert!(error.contains("(hint: name the servers of one cluster only"), "{error}");
        assert_eq!(held(other), Some(record("b", 1)), "nothing of another cluster is changed");
        // It goes on where it was as soon as that answers.
        one.signal("-CONT");
        swap(&mut a, Some(first), &record("a", 2));
        let remark = a.remark().unwrap();
        assert!(remark.starts_with(&endpoint(other)) && remark.contains("(hint: "), "{remark}");
        assert_eq!(held(other), Some(record("b", 1)));
    });
}

#[test]
fn a_server_of_another_cluster_that_comes_up_is_noticed_by_who_keeps_ready() {
    let Some([one, other]) = EtcdServer::start_twins() else { return };
    other.signal("-STOP");
    let mut register = register([&one, &other], SHORT);
    let first = swap(&mut register, None, &record("a", 1));
    register.keep_ready("vm");
    assert_eq!(register.remark(), None, "who is down disagrees with nobody");
    other.signal("-CONT");
    register.keep_ready("vm");
    let remark = register.remark().unwrap();
    assert!(
        remark.contains(&format!("{}: it is of another cluster than {}", endpoint(&other), endpoint(&one))),
        "{remark}"
    );
    swap(&mut register, Some(first), &record("a", 2));
}

#[test]
fn a_cluster_of_three_goes_on_with_any_two_of_its_servers() {
    let Some((servers, endpoints)) = EtcdServer::start_cluster() else { return };
    let open = |first: usize| {
        let mut endpoints = endpoints.clone();
        endpoints.rotate_left(first);
        EtcdRegister::open(&etcd_server::config(endpoints, None), SHORT).unwrap()
    };
    let mut register = open(0);
    let mut version = swap(&mut register, None, &record("a", 1));
    let mut term = 1;
    for (number, server) in servers.iter().enumerate() {
        server.signal("-STOP");
        // It may have been the leader; until there is another one a swap may be applied and not answered.
        term += 1;
        let wanted = record("a", term);
        version = swap(&mut register, Some(version), &wanted);
        // One that begins now finds the same, whichever of them it asks first.
        let found = read(&mut open(number));
        assert_eq!((found.version, found.record), (version, wanted));
        server.signal("-CONT");
        register.keep_ready("vm");
        assert_eq!(register.remark(), None);
    }
}

#[test]
fn a_list_with_two_names_of_one_server_is_one_cluster() {
    let Some(server) = EtcdServer::start() else { return };
    let again = endpoint(&server).replace("127.0.0.1", "localhost");
    let config = etcd_server::config(vec![endpoint(&server), again], None);
    let mut register = EtcdRegister::open(&config, PATIENCE).unwrap();
    let first = won(&register.swap("vm", None, &record("a", 1)).unwrap());
    won(&register.swap("vm", Some(first), &record("a", 2)).unwrap());
    assert_eq!(register.remark(), None);
}

#[test]
fn servers_that_ask_for_users_are_compared_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let password_file = folder.path().join("password");
    std::fs::write(&password_file, "member").unwrap();
    let login = EtcdLogin { user: "member".to_owned(), password_file };
    with_pairs(|one, other| {
        for server in [one, other] {
            server.demand_users();
        }
        let open = |endpoints: Vec<String>| {
            let config = EtcdConfig { login: Some(login.clone()), ..etcd_server::config(endpoints, None) };
            EtcdRegister::open(&config, Duration::from_secs(8)).unwrap()
        };
        let [mut a, mut b] = [[one, other], [other, one]].map(|servers| open(servers.map(endpoint).to_vec()));
        // A token of one means nothing to the other.
        assert_divided(&a.swap("vm", None, &record("a", 1)).unwrap_err(), [one, other]);
        assert_divided(&b.swap("vm", None, &record("b", 1)).unwrap_err(), [one, other]);
        assert_eq!(open(vec![endpoint(other)]).read("vm").unwrap(), None);
        let again = endpoint(other).replace("127.0.0.1", "localhost");
        let mut same = open(vec![endpoint(other), again]);
        swap(&mut same, None, &record("c", 1));
        same.keep_ready("vm");
        assert_eq!(same.remark(), None);
    });
}
