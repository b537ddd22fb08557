"""What each way of protecting a guest costs: which ways there are, how they are asked for, and how they are shown."""

import ipaddress
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from command import Command, make_command
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stealtime.hosts.checkpoints import Checkpoints
from stealtime.hosts.echo import answered, percentile_ns, request
from stealtime.hosts.host import CpuTimes
from stealtime.hosts.mode_costs import Figures, ModeCost, Way, refused_for_good, ways_of
from stealtime.hosts.mode_costs_shown import costs_document, costs_remarks, costs_table
from stealtime.hosts.rehearsing import demonstrated, machine_of, own_interface
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import VmFile, parse_vm_file
from stealtime.vocabulary.errors import StealtimeError, UsageError

MS = 1_000_000
S = 1_000_000_000
UNPROTECTED = Figures(
    elapsed_ns=5 * S,
    trips_ns=[MS // 2] * 250,
    cpu=CpuTimes(server_ns=5 * S, host_ns=S // 10, standby_ns=0),
    checkpoints=None,
    pages_per_s=100_000.0,
)
PROTECTED = Figures(
    elapsed_ns=5 * S,
    trips_ns=[*(MS * trip for trip in range(1, 101)), None],
    cpu=CpuTimes(server_ns=4 * S, host_ns=3 * S, standby_ns=S),
    checkpoints=Checkpoints(
        epochs=50,
        elapsed_ns=5 * S,
        pause_p50_ns=3 * MS,
        pause_max_ns=9 * MS,
        pause_total_ns=200 * MS,
        hold_p50_ns=4 * MS,
        shipped_bytes=50 << 20,
        pages=5_000,
    ),
    pages_per_s=93_000.0,
)
COSTS = [
    ModeCost(Way("off"), UNPROTECTED),
    ModeCost(Way("net", 100 * MS), PROTECTED),
    ModeCost(Way("net", 100 * MS, 5 * MS), None, "the guest was not protected all the time"),
    ModeCost(Way("off"), UNPROTECTED),
]


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return make_command(monkeypatch, capsys)


def test_a_mode_that_holds_output_is_also_asked_on_demand() -> None:
    ways = ways_of(["no-net", "net"], [5 * MS, 100 * MS, 25 * MS])
    assert [(way.mode, way.checkpoint_words()) for way in ways] == [
        ("off", "none"),
        ("no-net", "every 100 ms"),
        ("no-net", "every 25 ms"),
        ("no-net", "every 5 ms"),
        ("net", "every 100 ms"),
        ("net", "every 25 ms"),
        ("net", "every 5 ms"),
        ("net", "on demand, 5 ms to 100 ms"),
        ("off", "none"),
    ]
    once = [Way("off"), Way("net", 5 * MS), Way("off")]
    assert ways_of(["net"], [5 * MS]) == once, "nothing is left between the two"


@pytest.mark.parametrize("way", ways_of(["no-net", "net"], [5 * MS, 100 * MS]))
def test_each_way_is_one_that_a_machine_takes(way: Way) -> None:
    vm = VmFile.model_validate({"name": "a", **machine_of(demonstrated("tcg")), **way.keys()})
    assert (vm.mode, vm.min_interval_ns) == (way.mode, way.min_interval_ns)
    assert vm.interval == (way.interval_ns or 100 * MS)


def test_a_machine_keeps_what_it_is_and_leaves_what_is_its_hosts_own() -> None:
    text = """
name = "mine"
memory = "256MiB"
vcpus = 2
program = "counter"
kernel_arguments = "quiet"
mode = "net+bypass"
interval = "25ms"
metrics = "127.0.0.1:9464"
[[bypass]]
protocol = "udp"
source_port = "7000"
[[standby_hosts]]
name = "b"
endpoint = "unix:/run/b.sock"
"""
    machine = machine_of(parse_vm_file(text, "VM.toml", Path("/")))
    assert machine == {
        "memory": "256MiB",
        "vcpus": 2,
        "program": "counter",
        "kernel_arguments": "quiet",
        "bypass": [{"protocol": "udp", "source_port": "7000"}],
    }


def test_costs_are_held_against_the_unprotected_guest() -> None:
    document = costs_document(COSTS)
    assert document["unprotected_apart_share"] == 0
    unprotected, protected, missing, _ = document["ways"]
    assert unprotected["figures"]["slower_share"] is None
    assert unprotected["figures"]["stopped_share"] is None
    figures = protected["figures"]
    assert figures["slower_share"] == pytest.approx(0.07)
    assert figures["stopped_share"] == pytest.approx(0.04)
    assert (figures["round_trip_p50_ns"], figures["round_trip_p99_ns"]) == (51 * MS, 100 * MS)
    assert (figures["requests"], figures["unanswered"]) == (101, 1)
    assert (figures["guest_cpus"], figures["primary_cpus"], figures["standby_cpus"]) == (0.8, 0.4, 0.2)
    assert figures["shipped_bytes_per_s"] == 10 << 20
    assert missing["figures"] is None
    assert missing["reason"] == "the guest was not protected all the time"
    console = Console(width=140, highlight=False, no_color=True)
    with console.capture() as captured:
        console.print(costs_table(COSTS))
    _, _, of_protected, of_missing, _ = captured.get().splitlines()
    assert " ".join(of_protected.split()) == "net every 100 ms 51.0 ms 100 ms 4.0 % 7.0 % 40.0 % 20.0 % 10 MiB"
    assert of_missing.rstrip().endswith("not measured")
    said = costs_remarks(COSTS, cpus=2)
    assert said[0].endswith("not measured: the guest was not protected all the time")
    assert said[1] == "net, checkpoints every 100 ms: 1 of 101 requests were not answered"
    assert "share the 2 CPUs" in said[2]
    assert "0.0 % faster one time" in said[3]
    assert figures["slower_is_judged"] is True
    assert len(said) == 4


def test_what_the_unprotected_guest_varies_by_is_not_called_slower() -> None:
    again = ModeCost(Way("off"), replace(UNPROTECTED, pages_per_s=90_000.0))
    costs = [*COSTS[:-1], again]
    document = costs_document(costs)
    assert document["unprotected_apart_share"] == pytest.approx(10 / 95)
    assert document["ways"][1]["figures"]["slower_share"] == pytest.approx(1 - 93 / 95)
    console = Console(width=140, highlight=False, no_color=True)
    with console.capture() as captured:
        console.print(costs_table(costs))
    assert "not judged" in captured.get().splitlines()[2]
    assert document["ways"][1]["figures"]["slower_is_judged"] is False


def test_a_guest_that_stood_still_for_longer_than_it_lost_is_not_judged() -> None:
    quick = ModeCost(Way("net", 100 * MS), replace(PROTECTED, pages_per_s=97_000.0))
    figures = costs_document([COSTS[0], quick, COSTS[-1]])["ways"][1]["figures"]
    assert figures["slower_share"] == pytest.approx(0.03)
    assert figures["stopped_share"] == pytest.approx(0.04)
    assert figures["slower_is_judged"] is False


def test_what_was_measured_once_without_protection_judges_nobody() -> None:
    assert costs_document(COSTS[:2])["ways"][1]["figures"]["slower_is_judged"] is False
    assert "slower is not judged: the unprotected guest was measured once" in costs_remarks(COSTS[:2], cpus=2)


def test_of_another_guest_standing_still_is_the_least_that_it_loses() -> None:
    figures = Figures(S, [MS], CpuTimes(S, 0, 0), None, None)
    assert "only its own work tells" in costs_remarks([ModeCost(Way("off"), figures)], cpus=2)[-1]


def test_a_guest_of_its_own_address_is_asked_there() -> None:
    other = VmFile.model_validate({"name": "mine", "initramfs": "/x"})
    assert own_interface(demonstrated("tcg"), None) is None
    assert own_interface(other, "192.168.7.2/24") == ipaddress.IPv4Interface("192.168.7.2/24")
    told = VmFile.model_validate({"name": "mine", "initramfs": "/x", "network": {"address": "10.1.2.3/16"}})
    assert own_interface(told, None) == ipaddress.IPv4Interface("10.1.2.3/16")
    for address, words in (
        (None, "'mine' does not say"),
        ("10.0.0.2", "no room for a client"),
        ("10.0.0.300/24", "is not an"),
    ):
        with pytest.raises(UsageError, match=words) as refused:
            own_interface(other, address)
        assert "--address" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--interval", "1ms"), "--interval: '1ms' is too short"),
        (("--interval", "5"), "'5' has no unit"),
        (("--interval", "5ms,,25ms"), "--interval"),
        (("--for", "10ms"), "--for: '10ms' is not possible"),
        (("--load", "no-such-program x"), "there is no program 'no-such-program'"),
        (("--load", "'x"), "is no command"),
        (("--address", "10.0.0.2/24"), "--address 10.0.0.2/24: the program 'counter' has none of its own"),
    ],
)
def test_what_cannot_be_planned_is_said_before_anything_begins(
    stealtime: Command, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "VM.toml"
    file.write_text('name = "mine"\nprogram = "counter"\n')
    refused = stealtime("protect", "plan", str(file), *arguments)
    assert refused.code == 2, refused.err
    assert words in refused.err
    assert "hint: " in refused.err


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_a_request_sums_up_to_nothing_and_its_reply_is_known(identifier: int, number: int) -> None:
    sent = request(identifier, number)
    total = sum(struct.unpack(f"!{len(sent) // 2}H", sent))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF, "RFC 1071: with its checksum the sum is all ones"
    header = bytes([0x46]) + bytes(23)  # with options
    assert answered(header + bytes([0]) + sent[1:], identifier) == number
    assert answered(header + sent, identifier) is None, "a request is no answer"
    assert answered(header + bytes([0]) + sent[1:], identifier ^ 1) is None
    assert answered(header, identifier) is None


def test_what_was_not_answered_has_no_time() -> None:
    assert percentile_ns([3, None, 1, 2], 50) == 2
    assert percentile_ns([3, None, 1, 2], 75) == 3
    assert percentile_ns([3, None, 1, 2], 99) is None, "it came after all that were answered, or never"
    assert percentile_ns([None], 50) is None


def test_a_machine_that_is_refused_for_good_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("stealtime.hosts.mode_costs.time.monotonic", lambda: now_s)
    look = refused_for_good()

    def told(*warnings: str) -> MemberStatus:
        return MemberStatus(vm="db", host="a", role="solo", protected=False, warnings=warnings)

    refusal = "b refuses: b cannot stand by: there is no room (hint: free some)"
    for moment_s in (0.0, 5.0, 14.0):
        now_s = moment_s
        look(told(refusal, "written pages are found by userfault"))
    # It may come to an end, and begin anew.
    look(told())
    for moment_s in (16.0, 30.0):
        now_s = moment_s
        look(told(refusal))
    now_s = 31.5
    with pytest.raises(StealtimeError, match="there is no room"):
        look(told(refusal))
