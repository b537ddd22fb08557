//! Which probes there are. Nothing else in this crate knows one by name.

use stealtime_wire::Probe as Request;

use crate::probe::Probe;

/// The probe that is asked for.
pub fn find(request: &Request) -> &dyn Probe {
    match request {
        Request::Tick(tick) => tick,
        Request::Switch(switch) => switch,
        Request::Wakeup(wakeup) => wakeup,
        Request::Contend(contend) => contend,
        Request::Rtload(rtload) => rtload,
        Request::Disk(disk) => disk,
        Request::Net(net) => net,
    }
}
