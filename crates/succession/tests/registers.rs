//! What every register must do, on the real things.

#![allow(clippy::unwrap_used)]

mod certificates;
mod etcd_server;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use etcd_server::{EtcdServer, PATIENCE};
use serde_json::json;
use stealtime_succession::{
    EtcdConfig, EtcdIdentity, EtcdLogin, EtcdRegister, FileRegister, MemberId, Record, Register, RegisterError,
    SwapOutcome, Term, Version,
};

fn record(term: u64) -> Record {
    Record { standby: Some(MemberId::new("beta", 2)), ..Record::alone(Term(term), MemberId::new("alpha", 1)) }
}

fn won(outcome: &SwapOutcome) -> Version {
    match outcome {
        SwapOutcome::Won(version) => *version,
        SwapOutcome::Lost(current) => panic!("lost to {current:?}"),
    }
}

/// One member's calls, one after the other.
fn check_sequence(register: &mut dyn Register) {
    assert_eq!(register.read("vm").unwrap(), None);
    assert_eq!(register.swap("vm", Some(Version(7)), &record(1)).unwrap(), SwapOutcome::Lost(None));
    let first = won(&register.swap("vm", None, &record(1)).unwrap());
    let seen = register.read("vm").unwrap().unwrap();
    assert_eq!((seen.version, &seen.record), (first, &record(1)));
    assert_eq!(register.swap("vm", None, &record(9)).unwrap(), SwapOutcome::Lost(Some(seen.clone())));
    let second = won(&register.swap("vm", Some(first), &record(2)).unwrap());
    assert!(second > first, "{second:?} after {first:?}");
    let SwapOutcome::Lost(Some(current)) = register.swap("vm", Some(first), &record(9)).unwrap() else {
        panic!("a swap of an old version was won");
    };
    assert_eq!((current.version, current.record), (second, record(2)));
    assert_eq!(register.read("vm-0").unwrap(), None, "virtual machines are told apart");
    assert_eq!(register.read("v").unwrap(), None, "virtual machines are told apart");
}

/// Several members count in one record: no step is lost, and none is counted twice.
fn check_races(open: &(dyn Fn() -> Box<dyn Register> + Sync), steps_each: u64) {
    won(&open().swap("race", None, &Record { renewals: 0, ..record(1) }).unwrap());
    let results: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(|| count_up(open().as_mut(), steps_each))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let last = open().read("race").unwrap().unwrap().record;
    assert_eq!(last.renewals, 4 * steps_each, "steps won by the threads, with the swaps lost: {results:?}");
}

/// Take `steps` steps, and return how many swaps were lost to others.
fn count_up(register: &mut dyn Register, steps: u64) -> u64 {
    let mut lost = 0;
    let mut current = register.read("race").unwrap().unwrap();
    let mut taken = 0;
    while taken < steps {
        let wanted = current.record.renewed();
        match register.swap("race", Some(current.version), &wanted).unwrap() {
            SwapOutcome::Won(version) => {
                taken += 1;
                current = stealtime_succession::Versioned { version, record: wanted };
            }
            SwapOutcome::Lost(newer) => {
                lost += 1;
                current = newer.unwrap();
            }
        }
    }
    lost
}

#[test]
fn a_folder_compares_and_swaps() {
    let folder = tempfile::tempdir().unwrap();
    check_sequence(&mut FileRegister::open(folder.path()).unwrap());
}

#[test]
fn in_a_folder_four_threads_lose_no_step() {
    let folder = tempfile::tempdir().unwrap();
    check_races(&|| Box::new(FileRegister::open(folder.path()).unwrap()), 25);
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(left <= 17 + 4, "old versions are removed, but {left} files are left");
}

/// Names the folder to the processes that the next test starts.
const FOLDER_VARIABLE: &str = "STEALTIME_TEST_REGISTER";
const STEPS_OF_A_PROCESS: u64 = 60;

#[test]
#[ignore = "one of the processes of the next test"]
fn a_process_counts_up() {
    let folder = std::env::var_os(FOLDER_VARIABLE).unwrap();
    assert_eq!(std::process::id(), 1, "its PID namespace is its own");
    count_up(&mut FileRegister::open(folder.as_ref()).unwrap(), STEPS_OF_A_PROCESS);
}

#[test]
fn in_a_folder_processes_with_the_same_pid_lose_no_step() {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        command
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: this host gives no PID namespaces");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut register = FileRegister::open(folder.path()).unwrap();
    won(&register.swap("race", None, &Record { renewals: 0, ..record(1) }).unwrap());
    let processes: Vec<_> = (0..4)
        .map(|_| {
            unshare()
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "a_process_counts_up", "--ignored"])
                .env(FOLDER_VARIABLE, folder.path())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let counted = register.read("race").unwrap().unwrap().record.renewals;
    assert_eq!(counted, 4 * STEPS_OF_A_PROCESS, "two processes were told that they had won the same swap");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(left <= 17 + 4, "old versions are removed, but {left} files are left");
}

#[test]
fn a_file_that_nobody_finished_is_removed_when_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let mut register = FileRegister::open(folder.path()).unwrap();
    let (old, young) = (folder.path().join(".vm.old"), folder.path().join(".vm.young"));
    let hours_ago = std::time::SystemTime::now() - Duration::from_secs(7200);
    std::fs::File::create(&old).unwrap().set_modified(hours_ago).unwrap();
    std::fs::File::create(&young).unwrap();
    won(&register.swap("vm", None, &record(1)).unwrap());
    assert_eq!((old.exists(), young.exists()), (false, true));
}

#[test]
fn a_record_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut register = FileRegister::open(folder.path()).unwrap();
    won(&register.swap("vm", None, &record(1)).unwrap());
    std::fs::write(folder.path().join("vm.00000000000000000001.json"), "{").unwrap();
    let error = register.read("vm").unwrap_err();
    assert!(matches!(error, RegisterError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("no valid record for \"vm\""), "{error}");
}

#[test]
fn etcd_compares_and_swaps() {
    let Some(server) = EtcdServer::start() else { return };
    check_sequence(&mut server.register(PATIENCE));
}

#[test]
fn in_etcd_four_threads_lose_no_step() {
    let Some(server) = EtcdServer::start() else { return };
    check_races(&|| Box::new(server.register(PATIENCE)), 5);
}

#[test]
fn a_stopped_etcd_is_an_error_in_bounded_time_and_no_end() {
    let Some(server) = EtcdServer::start() else { return };
    let mut patient = server.register(PATIENCE);
    let first = won(&patient.swap("vm", None, &record(1)).unwrap());
    server.signal("-STOP");
    let mut register = server.register(Duration::from_millis(300));
    let began = Instant::now();
    let error = register.swap("vm", Some(first), &record(2)).unwrap_err();
    assert!(began.elapsed() < PATIENCE, "took {:?}", began.elapsed());
    assert!(matches!(error, RegisterError::Unreachable { .. }), "{error}");
    server.signal("-CONT");
    // The swap without an answer may have been applied meanwhile, as a member must expect.
    let current = patient.read("vm").unwrap().unwrap();
    let third = patient.swap("vm", Some(current.version), &record(3)).unwrap();
    let settled = match third {
        SwapOutcome::Won(_) => patient.read("vm").unwrap().unwrap(),
        SwapOutcome::Lost(current) => current.unwrap(),
    };
    assert!([record(2), record(3)].contains(&settled.record), "{settled:?}");
}

#[test]
fn an_endpoint_that_is_dead_is_passed_over() {
    let Some(server) = EtcdServer::start() else { return };
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let endpoints = [vec![format!("http://{refused}")], server.config.endpoints.clone()].concat();
    let config = etcd_server::config(endpoints, None);
    check_sequence(&mut EtcdRegister::open(&config, PATIENCE).unwrap());
    let dead = etcd_server::config(vec![format!("http://{refused}")], None);
    let error = EtcdRegister::open(&dead, PATIENCE).unwrap().read("vm").unwrap_err().to_string();
    assert!(error.contains(&refused.to_string()), "{error}");
}

#[test]
fn etcd_is_spoken_to_with_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let identity = certificates::make(folder.path());
    let Some(server) = EtcdServer::start_with(Some(&identity)) else { return };
    check_sequence(&mut server.register(PATIENCE));
    let stranger = tempfile::tempdir().unwrap();
    let config = EtcdConfig { identity: Some(certificates::make(stranger.path())), ..server.config.clone() };
    let error = EtcdRegister::open(&config, PATIENCE).unwrap().read("vm").unwrap_err();
    assert!(matches!(error, RegisterError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn certificates_that_are_renewed_are_shown_from_the_next_call_on_and_others_are_not_taken() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [good, strange, used] = [0, 1, 2].map(|index| certificates::make(folders[index].path()));
    let Some(server) = EtcdServer::start_with(Some(&good)) else { return };
    let renew = |from: &Path, to: &Path| std::fs::copy(from, to).map(drop).unwrap();
    let config = EtcdConfig { identity: Some(used.clone()), ..server.config.clone() };
    let mut register = EtcdRegister::open(&config, PATIENCE).unwrap();
    let stranger = |register: &mut EtcdRegister| {
        let error = register.read("vm").unwrap_err().to_string();
        assert!(error.contains("certificate"), "{error}");
    };
    stranger(&mut register);
    // While one file after the other is written: the pair cannot be used.
    renew(&good.ca, &used.ca);
    renew(&good.certificate, &used.certificate);
    stranger(&mut register);
    renew(&good.key, &used.key);
    assert_eq!(register.read("vm").unwrap(), None);
    for (from, to) in [(&strange.key, &used.key), (&strange.ca, &used.certificate)] {
        renew(from, to);
        assert_eq!(register.read("vm").unwrap(), None, "it goes on with what can be used");
    }
    std::fs::remove_file(&used.key).unwrap();
    assert_eq!(register.read("vm").unwrap(), None);
    let error = EtcdRegister::open(&config, PATIENCE).unwrap_err();
    assert!(matches!(error, RegisterError::Setup(_)), "{error}");
}

#[test]
fn a_certificate_and_the_key_of_another_are_named_and_not_used() {
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [one, other] = [0, 1].map(|index| certificates::make(folders[index].path()));
    let mixed = EtcdIdentity { key: other.key.clone(), ..one.clone() };
    let config = etcd_server::config(vec!["https://127.0.0.1:1".to_owned()], Some(mixed));
    let error = EtcdRegister::open(&config, PATIENCE).unwrap_err().to_string();
    assert!(error.contains(&one.certificate.display().to_string()), "{error}");
    assert!(error.contains(&other.key.display().to_string()), "{error}");
}

/// How `member` logs in, with this password.
fn login(folder: &Path, password: &str) -> EtcdLogin {
    let password_file = folder.join("password");
    std::fs::write(&password_file, format!("{password}\n")).unwrap();
    EtcdLogin { user: "member".to_owned(), password_file }
}

#[test]
fn an_etcd_with_users_wants_one_and_gives_it_no_more_than_it_has() {
    let Some(server) = EtcdServer::start() else { return };
    server.demand_users();
    let folder = tempfile::tempdir().unwrap();
    let open = |login| {
        let config = EtcdConfig { login, ..server.config.clone() };
        EtcdRegister::open(&config, PATIENCE).unwrap()
    };
    let nobody = open(None).read("vm").unwrap_err().to_string();
    assert!(nobody.contains("user name is empty"), "{nobody}");
    let wrong = open(Some(login(folder.path(), "guess"))).read("vm").unwrap_err().to_string();
    assert!(wrong.contains("etcd does not let the user in") && wrong.contains("authentication failed"), "{wrong}");
    check_sequence(&mut open(Some(login(folder.path(), "member"))));
    let other = EtcdLogin { user: "root".to_owned(), ..login(folder.path(), "root") };
    assert_eq!(open(Some(other)).read("vm").unwrap().unwrap().record, record(2));
}

#[test]
fn a_token_that_has_ended_is_replaced() {
    let Some(server) = EtcdServer::start() else { return };
    server.demand_users();
    let folder = tempfile::tempdir().unwrap();
    let config = EtcdConfig { login: Some(login(folder.path(), "member")), ..server.config.clone() };
    let mut register = EtcdRegister::open(&config, PATIENCE).unwrap();
    let first = won(&register.swap("vm", None, &record(1)).unwrap());
    // A change of a user's password ends its tokens at once: no clock is waited for.
    let root = server.post("authenticate", None, &json!({"name": "root", "password": "root"})).unwrap();
    let change = json!({"name": "member", "password": "another"});
    server.post("user/changepw", root["token"].as_str(), &change).unwrap();
    let refused = register.swap("vm", Some(first), &record(2)).unwrap_err().to_string();
    assert!(refused.contains("authentication failed"), "{refused}");
    login(folder.path(), "another");
    let second = won(&register.swap("vm", Some(first), &record(2)).unwrap());
    server.post("user/changepw", root["token"].as_str(), &change).unwrap();
    won(&register.swap("vm", Some(second), &record(3)).unwrap());
    register.keep_ready("vm");
    assert_eq!(register.read("vm").unwrap().unwrap().record, record(3));
}

#[test]
fn a_name_that_is_no_file_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = FileRegister::open(folder.path()).unwrap().read("../vm").unwrap_err();
    assert!(error.to_string().contains("\"../vm\""), "{error}");
}

#[test]
fn an_etcd_that_cannot_work_is_refused_before_anything_is_sent() {
    let open = |endpoint: &str, identity| {
        let config = etcd_server::config(vec![endpoint.to_owned()], identity);
        EtcdRegister::open(&config, PATIENCE).unwrap_err().to_string()
    };
    assert!(open("localhost:2379", None).contains("\"localhost:2379\" begins neither with http:// nor https://"));
    assert!(open("https://localhost:2379", None).contains("needs one"));
    assert!(
        open("http://10.0.0.9:2379", None).contains("\"http://10.0.0.9:2379\" is another machine"),
        "whoever is on the way could decide"
    );
    let insecure = EtcdConfig { insecure: true, ..etcd_server::config(vec!["http://10.0.0.9:2379".into()], None) };
    EtcdRegister::open(&insecure, PATIENCE).unwrap();
    let missing = || "/no/such/file.pem".into();
    let identity = EtcdIdentity { ca: missing(), certificate: missing(), key: missing() };
    assert!(open("https://localhost:2379", Some(identity)).contains("/no/such/file.pem cannot be read"));
}
