//! Asking the daemon of a host whether a member there has ended: it looks whether anybody lives in the
//! machine's folder.

use stealtime_shipping::{Endpoint, Identity, Inquire, Message, Told, connect};

use crate::spec::StandbyHost;
use crate::wording;

/// Ask a host on one of its members.
///
/// # Errors
/// Why it gave no answer, in a sentence.
pub async fn inquire(host: &StandbyHost, identity: Option<&Identity>, question: &Inquire) -> Result<Told, String> {
    let endpoint: Endpoint = host.endpoint.parse().map_err(|error| format!("{} is nowhere: {error}", host.name))?;
    let link = connect(&endpoint, identity).await.map_err(|error| wording::of_link(&error))?;
    if !link.vouches_for(&host.name) {
        return Err(format!("{} shows a certificate that is not for {}", host.endpoint, host.name));
    }
    let (sender, mut receiver) = link.split();
    sender.send(&Message::Inquire(question.clone())).await.map_err(|error| wording::of_link(&error))?;
    match receiver.receive().await.map_err(|error| wording::of_link(&error))? {
        Message::Told(told) => Ok(told),
        Message::Refuse { refusal, .. } => Err(format!("{} refuses: {refusal} (hint: {})", host.name, refusal.hint())),
        other => Err(format!("{} answered {:?}", host.name, other.kind())),
    }
}
