//! Voice over RTP, without sockets and clocks: what a sender puts into each packet and when it is due, and what a
//! receiver can say of the packets that came.
//!
//! The packets are G.711 of 20 ms (RFC 3551, payload type 0), so that every relay takes them for a call; where the
//! voice would be, they carry a [`Mark`]: which packet of which stream it is, when it was due and when it was sent.
//! A [`Receiver`] takes bytes and the time they came, and gives [`Figures`] of each stream and of all of them. What
//! it cannot read it counts. Nothing here allocates by what a packet says.

mod delay;
mod emodel;
mod figures;
mod g711;
mod identity;
mod jitter;
mod packet;
mod receiver;
mod runs;
mod schedule;
mod silence;
mod strangers;
mod stream;
mod window;

pub use delay::{Basis, Quartiles};
pub use emodel::{BPL_G711, BPL_G711_CONCEALED, Conversation, IE_G711, delay_impairment, loss_impairment, mos, rating};
pub use figures::{Counts, Jitters, LossBursts, Quality, Spread, StreamFigures, Total};
pub use g711::{CLOCK_HZ, PACKET_NS, PACKET_SAMPLES, PAYLOAD_BYTES, PAYLOAD_TYPE};
pub use identity::{Numbers, numbers};
pub use packet::{Datagram, Header, Kind, Mark, PACKET_BYTES, Turn, read, write};
pub use receiver::{Heard, Receiver};
pub use runs::LossRuns;
pub use schedule::{Schedule, Slot};
pub use silence::Silence;
pub use strangers::Strangers;
pub use stream::Listening;
