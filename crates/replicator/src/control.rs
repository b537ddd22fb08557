//! The control socket of a member: one JSON object a line in, one a line out.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};

use crate::faults::{self, Action};

/// The name of the socket in the member's folder.
pub const SOCKET: &str = "control.sock";

/// A longer line is no command.
const LINE_LIMIT_BYTES: u64 = 64 << 10;

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    Status,
    /// Hand the machine over to its standby.
    Failover {
        /// For a standby: take it, whatever a register says that went back.
        #[serde(default)]
        force: bool,
    },
    Stop,
    /// Stop protecting; the machine goes on alone.
    Detach,
    /// Break this member at a named step.
    Fault {
        point: String,
        action: Action,
        #[serde(default = "one")]
        passes: u64,
        /// Whether passes count only while the guest is protected.
        #[serde(default)]
        only_protected: bool,
    },
}

fn one() -> u64 {
    1
}

/// A command, and where its answer goes.
#[derive(Debug)]
pub struct Request {
    pub command: Command,
    pub answer: oneshot::Sender<Result<Value, Refusal>>,
}

/// Why a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub error: String,
    pub hint: Option<String>,
}

impl Refusal {
    /// A refusal with what to do about it.
    pub fn new(error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { error: error.into(), hint: Some(hint.into()) }
    }
}

/// Make the socket, for root (or whoever runs this) alone; until it is, the folder keeps others out.
pub fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Nobody can be accepted, as no descriptors are left: that may pass, and a member that cannot be told to stop is
/// worse than one that answers late.
const PAUSE: Duration = Duration::from_millis(100);

/// Take commands until nobody is left to carry them out.
pub async fn serve(listener: UnixListener, requests: mpsc::Sender<Request>, allow_faults: bool) {
    loop {
        tokio::select! {
            () = requests.closed() => return,
            accepted = listener.accept() => match accepted {
                // A client that breaks off is no matter of this member.
                Ok((stream, _)) => drop(tokio::spawn(serve_one(stream, requests.clone(), allow_faults))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}

async fn serve_one(stream: UnixStream, requests: mpsc::Sender<Request>, allow_faults: bool) -> io::Result<()> {
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(tokio::io::AsyncReadExt::take(reading, LINE_LIMIT_BYTES)).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match serde_json::from_str::<Command>(&line) {
            Err(error) => Err(Refusal::new(
                format!("this is no command: {error}"),
                "one JSON object a line, such as {\"command\": \"status\"}",
            )),
            Ok(Command::Fault { .. }) if !allow_faults => {
                Err(Refusal::new("faults are not allowed for this machine", "a test sets allow_faults in the spec"))
            }
            Ok(Command::Fault { point, action, passes, only_protected }) => {
                faults::arm(&point, action, passes, only_protected)
                    .map(|()| json!({"armed": point}))
                    .map_err(|error| Refusal { error: error.to_string(), hint: None })
            }
            Ok(command) => ask(command, &requests).await,
        };
        let answer = answer.unwrap_or_else(|refusal| json!(refusal));
        writing.write_all(format!("{answer}\n").as_bytes()).await?;
        lines.get_mut().get_mut().set_limit(LINE_LIMIT_BYTES);
    }
    Ok(())
}

async fn ask(command: Command, requests: &mpsc::Sender<Request>) -> Result<Value, Refusal> {
    let (answer, answered) = oneshot::channel();
    let leaving = || Refusal { error: "this member is leaving".to_owned(), hint: None };
    requests.send(Request { command, answer }).await.map_err(|_| leaving())?;
    answered.await.map_err(|_| leaving())?
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn exchange(lines: &str, allow_faults: bool) -> Vec<Value> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (sender, mut requests) = mpsc::channel::<Request>(4);
        tokio::spawn(async move {
            while let Some(request) = requests.recv().await {
                assert_eq!(request.command, Command::Status);
                request.answer.send(Ok(json!({"role": "solo"}))).unwrap();
            }
        });
        let serving = tokio::spawn(serve_one(theirs, sender, allow_faults));
        let (reading, mut writing) = ours.into_split();
        writing.write_all(lines.as_bytes()).await.unwrap();
        drop(writing);
        let mut answers = BufReader::new(reading).lines();
        let mut all = Vec::new();
        while let Some(line) = answers.next_line().await.unwrap() {
            all.push(serde_json::from_str(&line).unwrap());
        }
        serving.await.unwrap().unwrap();
        all
    }

    #[tokio::test]
    async fn each_line_has_its_answer_and_a_bad_one_ends_nothing() {
        let answers = exchange("{\"command\": \"dance\"}\n{\"command\":\"status\"}\n", false).await;
        assert!(answers[0]["error"].as_str().unwrap().contains("dance"), "{answers:?}");
        assert_eq!(answers[1], json!({"role": "solo"}));
    }

    #[tokio::test]
    async fn the_socket_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let _listener = listen(folder.path()).unwrap();
        let mode = std::fs::metadata(folder.path().join(SOCKET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn faults_are_refused_unless_the_spec_allows_them() {
        let fault = "{\"command\":\"fault\",\"point\":\"nowhere\",\"action\":\"kill\"}\n";
        let answers = exchange(fault, false).await;
        assert!(answers[0]["error"].as_str().unwrap().contains("not allowed"), "{answers:?}");
        let answers = exchange(fault, true).await;
        assert!(answers[0]["error"].as_str().unwrap().contains("no fault point"), "{answers:?}");
    }
}
