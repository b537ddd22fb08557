//! Who lives in the folder of a machine: its lock says that somebody does, and its control socket who.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use stealtime_shipping::Living;
use stealtime_succession::{MemberId, Term};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::control::SOCKET;

/// How long a member may take to say who it is: less than a host that asks for it waits.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A longer answer is no status.
const LIMIT_BYTES: u64 = 1 << 20;

/// Ask the member in a folder who it is; None if it does not say, as one that stands still.
pub async fn ask(member_folder: &Path) -> Option<Living> {
    let status = timeout(ANSWER_WITHIN, status(member_folder)).await.ok()??;
    Some(Living {
        member: MemberId::from_wire(status["member"].as_str()?),
        term: Term(status["term"].as_u64()?),
        role: status["role"].as_str()?.to_owned(),
    })
}

async fn status(member_folder: &Path) -> Option<Value> {
    let (reading, mut writing) = UnixStream::connect(member_folder.join(SOCKET)).await.ok()?.into_split();
    writing.write_all(b"{\"command\": \"status\"}\n").await.ok()?;
    let mut line = String::new();
    BufReader::new(reading.take(LIMIT_BYTES)).read_line(&mut line).await.ok()?;
    serde_json::from_str(&line).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn a_member_says_who_it_is_and_one_that_is_gone_or_stands_still_does_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(ask(folder.path()).await, None, "nobody listens");
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        assert_eq!(ask(folder.path()).await, None, "nobody answers");
        tokio::spawn(async move {
            // The one that was not answered is first.
            while let Ok((mut asking, _)) = listener.accept().await {
                // Who closes before all was read breaks the connection.
                let _ = asking.read(&mut [0; 64]).await;
                let status = json!({"member": "b@0000000000000007", "term": 4, "role": "standby", "more": null});
                let _ = asking.write_all(format!("{status}\n").as_bytes()).await;
            }
        });
        let living = Living { member: MemberId::new("b", 7), term: Term(4), role: "standby".to_owned() };
        assert_eq!(ask(folder.path()).await, Some(living));
    }
}
