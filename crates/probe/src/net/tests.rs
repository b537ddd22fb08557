use std::net::UdpSocket;
use std::sync::mpsc::channel;
use std::thread;

use stealtime_wire::{NetTransport, Probe as Request};

use super::message::{length_of, set_times};
use super::*;
use crate::clock::TscRate;
use crate::running::RunningTrial;
use crate::trial::Trial;

fn net(peer: String, depth: u32) -> Net {
    let transport = NetTransport::Udp;
    Net { peer, transport, message_bytes: 64, depth, interval_ns: None, patience_ns: 20_000_000 }
}

/// Answers all but each message whose number divides by `drops`, beginning with the third.
fn lossy_peer(drops: u64) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut message = [0; 1_000];
        while let Ok((length, asker)) = socket.recv_from(&mut message) {
            let number = u64::from_le_bytes(message[8..16].try_into().unwrap());
            if number < 3 || !number.is_multiple_of(drops) {
                assert_eq!(length_of(&message[..length]), Some(length));
                set_times(&mut message[..length], 1_000, 1_005);
                socket.send_to(&message[..length], asker).unwrap();
            }
        }
    });
    address
}

#[test]
fn each_lost_message_is_a_row_and_counted() {
    let net = net(lossy_peer(40), 1);
    let duration_ns = 1_000_000_000;
    let request = TrialRequest {
        max_samples: Some(200),
        ..TrialRequest::plain(Request::Net(net.clone()), vec![0], 0, duration_ns)
    };
    let rate = TscRate { hz: 2e9, source: "made up".to_owned() };
    let (running, (ready, _is_ready)) = (RunningTrial::new(), channel());
    let trial = Trial { request: &request, rate: &rate, running: &running };
    let stage =
        Stage { trial: &trial, cpus: &[0], layout: Probe::layout(&net), clock: SampleClock::Tsc, ready: &ready };
    let measured = net.measure(&stage).unwrap();
    let rows = measured.begun.recorder.copy(0..measured.begun.recorder.len());
    let [_, outward, residence, answered] = &rows.further[..] else { panic!("four columns") };
    assert_eq!(answered.len(), 200);
    let lost = answered.iter().filter(|&&answered| answered == 0).count() as u64;
    // Of 200 numbers in a row each fortieth, where 50 went before.
    assert_eq!((lost, measured.counters["lost_messages"]), (5, 5));
    let patience = u32::try_from(rate.to_cycles(net.patience_ns)).unwrap();
    for (index, &answered) in answered.iter().enumerate() {
        assert_eq!((answered == 0, residence[index]), (rows.durations[index] >= patience, 5 * answered));
        assert_eq!(answered == 0, outward[index] == 0);
    }
    assert_eq!(measured.findings[0].code, "messages_lost");
}

#[test]
fn a_peer_that_does_not_answer_or_is_none_is_told_of() {
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = deaf.local_addr().unwrap().to_string();
    let refused = |net: &Net, error: io::ErrorKind| refused(net, &error.into()).to_string();
    assert_eq!(refused(&net(peer.clone(), 1), io::ErrorKind::TimedOut), format!("{peer} does not answer"));
    assert!(refused(&net(peer, 1), io::ErrorKind::InvalidData).contains("answers with something else"));
    assert!(address_of("nonsense").is_err() && address_of("127.0.0.1:7007").is_ok());
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let refused = |net: &Net| net.validate(1_000_000_000).unwrap_err().to_string();
    let net = |depth| net("127.0.0.1:7007".to_owned(), depth);
    assert!(net(1).validate(1).is_ok());
    assert!(refused(&net(0)).starts_with("depth = 0"));
    assert!(refused(&Net { message_bytes: 47, ..net(1) }).starts_with("message_bytes = 47"));
    assert!(refused(&Net { patience_ns: 0, ..net(1) }).starts_with("patience_ns = 0"));
    assert!(refused(&Net { interval_ns: Some(2_000_000_000), ..net(1) }).starts_with("interval_ns"));
}
