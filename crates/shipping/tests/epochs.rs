//! Epochs from the encoder to the stager: what comes out is what went in, or nothing.

use std::collections::VecDeque;

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use stealtime_disk::{Content, Write as DiskWrite};
use stealtime_shipping::{
    EncodeError, EncodeStatistics, EpochStager, EpochToShip, Layers, Message, PAGE_BYTES, PageEncoder, StageError,
    StagedEpoch, StagerLimits,
};
use stealtime_succession::Epoch;

use crate::streams::{Memory, TERM, bytes_of, frames_of, messages_of, noise, two_epochs};

const PAGES: usize = 32;

fn stager(pages: u64) -> EpochStager {
    EpochStager::new(StagerLimits::new(pages), TERM)
}

fn stage(stager: &mut EpochStager, messages: &[Message], base: &Memory) -> Result<Option<StagedEpoch>, StageError> {
    let mut staged = None;
    for message in messages {
        staged = staged.or(stager.accept(message, &base.0)?);
    }
    Ok(staged)
}

/// What a guest does to a page.
#[derive(Debug, Clone)]
enum Write {
    Zero,
    Same,
    Bytes(Vec<(usize, u8)>),
    Noise(u64),
    Fill(u8),
}

fn writes() -> impl Strategy<Value = Write> {
    prop_oneof![
        Just(Write::Zero),
        Just(Write::Same),
        vec((0..PAGE_BYTES, any::<u8>()), 1..40).prop_map(Write::Bytes),
        any::<u64>().prop_map(Write::Noise),
        any::<u8>().prop_map(Write::Fill),
    ]
}

fn write(page: &mut [u8], write: &Write) {
    match write {
        Write::Zero => page.fill(0),
        Write::Same => {}
        Write::Bytes(bytes) => bytes.iter().for_each(|&(offset, value)| page[offset] = value),
        Write::Noise(seed) => noise(*seed, page),
        Write::Fill(value) => page.fill(*value),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The standby applies epochs late, and always has what the active member had.
    #[test]
    fn the_standby_has_what_the_guest_wrote(
        keeps_shadow: bool,
        in_flight in 0..3_usize,
        epochs in vec((btree_set(0..PAGES as u64, 0..10), vec(writes(), 10), vec(any::<u8>(), 1..100)), 1..6),
    ) {
        let mut guest = Memory::new(PAGES);
        for index in (0..PAGES).step_by(3) {
            noise(index as u64, guest.page_mut(index));
        }
        let mut encoder = PageEncoder::new(PAGES as u64, keeps_shadow);
        let mut stager = stager(PAGES as u64);
        let mut standby = Memory::new(PAGES);
        let mut waiting: VecDeque<(StagedEpoch, Memory)> = VecDeque::new();

        let all: Vec<u64> = (0..PAGES as u64).collect();
        let mut indices = all;
        let mut devices = vec![1];
        let mut epochs = epochs.into_iter();
        for epoch in 1.. {
            let frames = frames_of(&mut encoder, &guest, epoch, &indices, &devices);
            let (messages, end) = messages_of(&bytes_of(&frames));
            prop_assert!(end.is_ok());
            let mut staged = None;
            for message in &messages {
                let base = Layers::new(&standby.0, waiting.iter().rev().map(|(epoch, _)| epoch));
                staged = stager.accept(message, &base).unwrap();
            }
            let staged = staged.unwrap();
            prop_assert_eq!(&staged.devices, &devices);
            prop_assert_eq!(staged.epoch, Epoch(epoch));
            waiting.push_back((staged, guest.clone()));
            while waiting.len() > in_flight {
                let (epoch, as_it_was) = waiting.pop_front().unwrap();
                standby.apply(&epoch);
                prop_assert!(standby.0 == as_it_was.0, "{} differs", epoch.epoch);
                stager.recycle(epoch);
            }
            let Some((written, how, state)) = epochs.next() else { break };
            indices = written.into_iter().collect();
            for (&index, how) in indices.iter().zip(&how) {
                write(guest.page_mut(index as usize), how);
            }
            devices = state;
        }
    }
}

#[test]
fn each_page_goes_in_the_way_that_suits_it() {
    let mut memory = Memory::new(40);
    for index in 0..20 {
        noise(index as u64, memory.page_mut(index));
    }
    let mut encoder = PageEncoder::new(40, true);
    let mut encode = |memory: &Memory, epoch, full, indices: &[u64]| -> EncodeStatistics {
        let content = memory.staged(indices);
        let epoch =
            EpochToShip { term: TERM, epoch: Epoch(epoch), full, indices, content: &content, disks: &[], devices: b"" };
        encoder.encode(&epoch, &mut drop).unwrap()
    };
    let first = encode(&memory, 1, true, &(0..40).collect::<Vec<_>>());
    assert_eq!((first.raw_pages, first.zero_pages), (20, 20));

    memory.page_mut(0)[8] ^= 1; // a small difference of a page that does not compress
    memory.page_mut(2).fill(0);
    memory.page_mut(3).fill(7); // the page compresses, the difference does not
    noise(99, memory.page_mut(4)); // neither compresses
    noise(98, &mut memory.page_mut(5)[..2048]); // the difference is half a page
    let second = encode(&memory, 2, false, &[0, 1, 2, 3, 4, 5]);
    assert_eq!(
        (second.delta_pages, second.same_pages, second.zero_pages, second.raw_pages),
        (2, 1, 1, 2),
        "{second:?}"
    );
}

#[test]
fn counters_in_constant_pages_take_a_small_part_of_their_pages() {
    let mut memory = Memory::new(512);
    noise(1, &mut memory.0);
    let mut encoder = PageEncoder::new(512, true);
    frames_of(&mut encoder, &memory, 1, &(0..512).collect::<Vec<_>>(), b"");
    let indices: Vec<u64> = (0..512).step_by(2).collect();
    for &index in &indices {
        for offset in [0, 8, 128, 2048, 4000] {
            memory.page_mut(index as usize)[offset] = memory.page_mut(index as usize)[offset].wrapping_add(1);
        }
    }
    let mut statistics = EncodeStatistics::default();
    let content = memory.staged(&indices);
    let epoch = EpochToShip {
        term: TERM,
        epoch: Epoch(2),
        full: false,
        indices: &indices,
        content: &content,
        disks: &[],
        devices: b"",
    };
    statistics += encoder.encode(&epoch, &mut drop).unwrap();
    let ratio = statistics.shipped_bytes as f64 / statistics.raw_bytes() as f64;
    assert!(ratio < 0.02, "{ratio}: {statistics:?}");
}

#[test]
fn the_state_of_devices_is_packed_piece_by_piece() {
    let memory = Memory::new(1);
    // Longer than three pieces: registers that are mostly zero, and memory of a device that does not
    // compress.
    let mut devices = vec![0; 200_000];
    for at in (0..devices.len()).step_by(61) {
        devices[at] = at as u8;
    }
    noise(1, &mut devices[150_000..170_000]);
    let frames = frames_of(&mut PageEncoder::new(1, true), &memory, 1, &[0], &devices);
    let bytes = bytes_of(&frames);
    assert!(bytes.len() < devices.len() / 4, "{} bytes", bytes.len());
    let (messages, whole) = messages_of(&bytes);
    whole.unwrap();
    let staged = stage(&mut stager(1), &messages, &memory).unwrap().unwrap();
    assert!(staged.devices == devices);
}

#[test]
fn an_epoch_that_is_cut_anywhere_is_not_staged() {
    let epochs = two_epochs();
    let (first, _) = messages_of(&bytes_of(&epochs.first));
    let (second, _) = messages_of(&bytes_of(&epochs.second));
    for cut in 0..second.len() {
        let mut stager = stager(8);
        stage(&mut stager, &first, &Memory::new(8)).unwrap();
        assert_eq!(stage(&mut stager, &second[..cut], &epochs.first_memory), Ok(None));
        // The connection broke; whoever connects next must begin anew.
        stager.discard();
        let again = stage(&mut stager, &second, &epochs.first_memory);
        assert_eq!(again, Err(StageError::Broken { epoch: Epoch(2) }));
        assert_eq!(stager.last(), Some(Epoch(1)));
    }
}

/// Behind the checksums of frames: damage in a host's memory, or an encoder that is wrong.
#[test]
fn every_flipped_bit_of_a_payload_is_refused_or_changes_nothing() {
    let epochs = two_epochs();
    let (first, _) = messages_of(&bytes_of(&epochs.first));
    let (second, _) = messages_of(&bytes_of(&epochs.second));
    let mut harmless = 0;
    for (position, message) in second.iter().enumerate() {
        let mut flips: Vec<Message> = Vec::new();
        match message {
            Message::Pages(batch) => flips.extend((0..batch.body.len() * 8).map(|bit| {
                let mut batch = batch.clone();
                batch.body[bit / 8] ^= 1 << (bit % 8);
                Message::Pages(batch)
            })),
            Message::Devices(piece) => flips.extend((0..piece.content.len() * 8).map(|bit| {
                let mut piece = piece.clone();
                piece.content[bit / 8] ^= 1 << (bit % 8);
                Message::Devices(piece)
            })),
            Message::EpochBegin(begin) => flips.extend((0..64).flat_map(|bit| {
                let (mut pages, mut devices, mut epoch) = (*begin, *begin, *begin);
                pages.pages ^= 1 << bit;
                devices.device_bytes ^= 1 << bit;
                epoch.epoch.0 ^= 1 << bit;
                [pages, devices, epoch].map(Message::EpochBegin)
            })),
            Message::EpochEnd(end) => flips.extend((0..64).map(|bit| {
                let mut end = *end;
                end.digest ^= 1 << bit;
                Message::EpochEnd(end)
            })),
            other => panic!("{other:?}"),
        }
        for flipped in flips {
            let mut stager = stager(8);
            stage(&mut stager, &first, &Memory::new(8)).unwrap();
            let mut messages = second.clone();
            messages[position] = flipped;
            let Ok(staged) = stage(&mut stager, &messages, &epochs.first_memory) else { continue };
            let mut standby = epochs.first_memory.clone();
            let staged = staged.expect("a whole epoch or an error");
            standby.apply(&staged);
            assert!(standby.0 == epochs.second_memory.0, "{:?}", messages[position]);
            assert_eq!(staged.devices, b"second devices");
            harmless += 1;
        }
    }
    // A page of zeros that is told as a difference of zero words would be one; there is none such in these
    // epochs, but LZ4 may copy the same bytes from another place.
    assert!(harmless < 20, "{harmless} flips changed nothing");
}

#[test]
fn an_epoch_on_top_of_other_content_is_refused() {
    let epochs = two_epochs();
    let (first, _) = messages_of(&bytes_of(&epochs.first));
    let (second, _) = messages_of(&bytes_of(&epochs.second));
    for page in [2, 3] {
        let mut stager = stager(8);
        stage(&mut stager, &first, &Memory::new(8)).unwrap();
        let mut other = epochs.first_memory.clone();
        other.page_mut(page)[77] ^= 1;
        let refused = stage(&mut stager, &second, &other);
        assert_eq!(refused, Err(StageError::DecodedHash { epoch: Epoch(2), batch: 0 }), "page {page}");
    }
}

#[test]
fn messages_out_of_turn_are_refused_and_end_the_stream() {
    let epochs = two_epochs();
    let (first, _) = messages_of(&bytes_of(&epochs.first));
    let (second, _) = messages_of(&bytes_of(&epochs.second));
    let refuse = |messages: &[&Message]| {
        let mut stager = stager(8);
        let mut result = Ok(None);
        for message in messages {
            if result.is_err() {
                let after = stager.accept(message, &epochs.first_memory.0);
                assert!(matches!(after, Err(StageError::Broken { .. })), "{after:?}");
            } else {
                result = stager.accept(message, &epochs.first_memory.0);
            }
        }
        result.unwrap_err()
    };
    let after_first = |messages: &[&Message]| refuse(&first.iter().chain(messages.iter().copied()).collect::<Vec<_>>());
    let [begin, pages, devices, end] = second.as_slice() else { panic!("{} messages", second.len()) };

    let place = "before the head of an epoch";
    assert_eq!(refuse(&[pages, end]), StageError::Order { message: "a batch", epoch: Epoch(2), place });
    assert_eq!(refuse(&[end, end]), StageError::Order { message: "the tail", epoch: Epoch(2), place });
    assert_eq!(refuse(&[begin, pages]), StageError::NothingBefore { epoch: Epoch(2) });
    let place = "within an epoch";
    assert_eq!(after_first(&[begin, begin]), StageError::Order { message: "the head", epoch: Epoch(2), place });
    let twice = StageError::BatchNumber { epoch: Epoch(2), batch: 0, expected: 1 };
    assert_eq!(after_first(&[begin, pages, pages]), twice);
    let missing = StageError::Incomplete { epoch: Epoch(2), what: "pages", found: 0, announced: 4 };
    assert_eq!(after_first(&[begin, devices, end]), missing);
    let what = "bytes of device state";
    let missing = StageError::Incomplete { epoch: Epoch(2), what, found: 0, announced: 14 };
    assert_eq!(after_first(&[begin, pages, end]), missing);
    let more = StageError::Incomplete { epoch: Epoch(2), what, found: 28, announced: 14 };
    assert_eq!(after_first(&[begin, pages, devices, devices]), more);
    let again = StageError::Epoch { epoch: Epoch(1), expected: Epoch(2) };
    assert_eq!(after_first(&[&first[0]]), again);
    let other = StageError::Epoch { epoch: Epoch(1), expected: Epoch(2) };
    assert_eq!(after_first(&[begin, &first[1]]), other);
}

#[test]
fn copies_in_advance_have_one_number_and_come_before_the_first_whole_epoch() {
    let mut guest = Memory::new(PAGES);
    let mut encoder = PageEncoder::new(PAGES as u64, true);
    let mut stager = stager(PAGES as u64);
    let mut standby = Memory::new(PAGES);
    let all: Vec<u64> = (0..PAGES as u64).collect();
    let mut take = |guest: &Memory, number, full, indices: &[u64], devices: &[u8]| {
        let content = guest.staged(indices);
        let epoch =
            EpochToShip { term: TERM, epoch: Epoch(number), full, indices, content: &content, disks: &[], devices };
        let mut frames = Vec::new();
        encoder.encode(&epoch, &mut |frame| frames.push(frame)).unwrap();
        let (messages, _) = messages_of(&bytes_of(&frames));
        let staged = stage(&mut stager, &messages, &standby)?.unwrap();
        standby.apply(&staged);
        Ok::<_, StageError>(standby.0 == guest.0)
    };
    noise(1, guest.page_mut(3));
    assert_eq!(take(&guest, 6, true, &all, b""), Ok(true));
    for round in 0..3 {
        noise(round, guest.page_mut(3));
        guest.page_mut(7).fill(u8::from(round != 1));
        assert_eq!(take(&guest, 6, false, &[3, 7], b""), Ok(true), "round {round}");
    }
    noise(9, guest.page_mut(3));
    assert_eq!(take(&guest, 7, false, &[3], b"devices"), Ok(true));
    for number in [7, 8] {
        let refused = take(&guest, number, false, &[3], b"").unwrap_err();
        let expected = "a copy in advance";
        assert!(
            matches!(refused, StageError::Order { message, .. } if message == expected)
                || number == 8 && matches!(refused, StageError::Broken { .. }),
            "{refused}"
        );
    }
}

#[test]
fn an_epoch_of_another_term_is_refused_until_the_term_is_set() {
    let epochs = two_epochs();
    let (first, _) = messages_of(&bytes_of(&epochs.first));
    let mut stager = EpochStager::new(StagerLimits::new(8), TERM.next());
    let expected = TERM.next();
    assert_eq!(
        stage(&mut stager, &first, &Memory::new(8)),
        Err(StageError::Term { epoch: Epoch(1), term: TERM, expected })
    );
    let mut stager = EpochStager::new(StagerLimits::new(8), TERM);
    // The term changes while an epoch is under way: it ends as it began.
    stager.begin(&begin_of(&first)).unwrap();
    stager.set_term(TERM.next());
    let staged = stage(&mut stager, &first[1..], &Memory::new(8)).unwrap().unwrap();
    assert_eq!(staged.term, TERM);
}

fn begin_of(messages: &[Message]) -> stealtime_shipping::EpochBegin {
    match &messages[0] {
        Message::EpochBegin(begin) => *begin,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_epoch_may_announce_no_more_than_there_can_be() {
    let (first, _) = messages_of(&bytes_of(&two_epochs().first));
    let begin = begin_of(&first);
    let refused = |begin| stager(8).begin(&begin).unwrap_err().to_string();
    let more = stealtime_shipping::EpochBegin { pages: 9, ..begin };
    assert_eq!(refused(more), "epoch 1 announces 9 pages, and the limit is 8");
    let fewer = stealtime_shipping::EpochBegin { pages: 7, ..begin };
    assert_eq!(refused(fewer), "epoch 1 announces 7 pages, and the limit is 8");
    let devices = stealtime_shipping::EpochBegin { device_bytes: (64 << 20) + 1, ..begin };
    assert_eq!(refused(devices), "epoch 1 announces 67108865 bytes of device state, and the limit is 67108864");
}

#[test]
fn what_was_written_of_disks_comes_with_its_epoch_or_not_at_all() {
    let data = |disk, offset, bytes: usize| {
        let mut data = vec![0; bytes];
        noise(offset, &mut data);
        DiskWrite { disk, offset, content: Content::Data(data) }
    };
    let writes =
        [data(0, 4096, 8192), data(1, 0, 512), DiskWrite { disk: 0, offset: 6000, content: Content::Zeroes(1 << 30) }];
    let frames = |writes: &[DiskWrite]| {
        let mut encoder = PageEncoder::new(8, true);
        let mut frames = Vec::new();
        let (indices, content) = ((0..8).collect::<Vec<_>>(), Memory::new(8).0);
        let first = EpochToShip {
            term: TERM,
            epoch: Epoch(1),
            full: true,
            indices: &indices,
            content: &content,
            disks: writes,
            devices: b"devices",
        };
        let statistics = encoder.encode(&first, &mut |frame| frames.push(frame)).unwrap();
        (messages_of(&bytes_of(&frames)).0, statistics)
    };
    let (messages, statistics) = frames(&writes);
    assert!(statistics.disk_bytes > 8192);
    let memory = Memory::new(8);
    let staged = stage(&mut stager(8), &messages, &memory).unwrap().unwrap();
    assert_eq!((staged.disks, staged.devices.as_slice()), (writes.to_vec(), &b"devices"[..]));
    let place = messages.iter().position(|message| matches!(message, Message::DiskWrites(_))).unwrap();
    // Lost, doubled, those of another epoch, and in another order.
    let lost: Vec<_> = messages.iter().filter(|one| !matches!(one, Message::DiskWrites(_))).cloned().collect();
    let refused = stage(&mut stager(8), &lost, &memory).unwrap_err();
    assert!(matches!(refused, StageError::Incomplete { what: "bytes of disks", found: 0, .. }), "{refused}");
    let mut doubled = messages.clone();
    doubled.insert(place, messages[place].clone());
    let refused = stage(&mut stager(8), &doubled, &memory).unwrap_err();
    assert!(matches!(refused, StageError::Incomplete { what: "bytes of disks", .. }), "{refused}");
    let reordered = frames(&[writes[1].clone(), writes[0].clone(), writes[2].clone()]).0;
    let mut exchanged = messages.clone();
    exchanged[place] = reordered[place].clone();
    let refused = stage(&mut stager(8), &exchanged, &memory).unwrap_err();
    assert!(matches!(refused, StageError::Digest { .. }), "{refused}");
    let mut spoiled = messages;
    let Message::DiskWrites(piece) = &mut spoiled[place] else { panic!() };
    piece.content.truncate(3);
    let refused = stage(&mut stager(8), &spoiled, &memory).unwrap_err();
    assert!(matches!(refused, StageError::Disks { .. }), "{refused}");
}

#[test]
fn the_encoder_refuses_what_the_stager_would() {
    let memory = Memory::new(8);
    let content = memory.staged(&[1, 2]);
    let mut encoder = PageEncoder::new(8, true);
    let mut encode = |epoch, full, indices: &[u64], content: &[u8]| {
        let to_ship = EpochToShip { term: TERM, epoch: Epoch(epoch), full, indices, content, disks: &[], devices: b"" };
        encoder.encode(&to_ship, &mut drop)
    };
    assert!(matches!(encode(1, false, &[1, 2], &content), Err(EncodeError::NothingBefore { epoch: Epoch(1) })));
    assert!(matches!(encode(1, true, &[1, 2], &content), Err(EncodeError::Announced { pages: 2, .. })));
    encode(1, true, &(0..8).collect::<Vec<_>>(), &memory.0).unwrap();
    assert!(matches!(encode(2, false, &[2, 1], &content), Err(EncodeError::Order { index: 1, least: 3 })));
    let broken_off = encode(3, false, &[1, 2], &content);
    assert!(matches!(broken_off, Err(EncodeError::NothingBefore { epoch: Epoch(3) })), "{broken_off:?}");
    for (indices, content) in [(&[1, 8], content.as_slice()), (&[1, 2], &content[1..]), (&[1, 1], &content)] {
        encode(3, true, &(0..8).collect::<Vec<_>>(), &memory.0).unwrap();
        encode(4, false, indices, content).unwrap_err();
    }
}
