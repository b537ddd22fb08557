"""What two servers that replicate each other are told, and how it is seen which of them has the address."""

from dataclasses import replace

import pytest
from encrypted_call import EncryptedCall
from media_tap import Datagram

from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.appliance.replication import ReplicaConfiguration, store_options
from stealtime.studies.telephony.appliance.root import modules_of
from stealtime.studies.telephony.place.replicated import parse_card
from stealtime.studies.telephony.probes import RegisterFailoverCells
from stealtime.vocabulary.errors import UsageError


def _replica(number: int, advertisement_ns: int = 1_000_000_000) -> ReplicaConfiguration:
    return ReplicaConfiguration(
        number=number,
        address="10.0.0.1",
        prefix_length=24,
        own_addresses=("10.0.0.2", "10.0.0.3"),
        store="10.0.0.4",
        advertisement_ns=advertisement_ns,
    )


@pytest.mark.parametrize(("number", "own", "other"), [(0, "10.0.0.2", "10.0.0.3"), (1, "10.0.0.3", "10.0.0.2")])
def test_each_server_tells_the_other_one_and_hears_of_its_calls(number: int, own: str, other: str) -> None:
    files = _replica(number).files
    proxy, relay, mover = files["kamailio.cfg"], files["rtpengine.conf"], files["keepalived.conf"]
    assert f'modparam("dmq", "server_address", "sip:{own}:5060")' in proxy
    assert f'modparam("dmq", "notification_address", "sip:{other}:5060")' in proxy
    assert f"src_ip == {other}" in proxy
    assert f"redis = 10.0.0.4:6379/{number}\nsubscribe-keyspace = {1 - number}\n" in relay
    assert f"unicast_src_ip {own}\n" in mover
    assert f"unicast_peer {{\n        {other}\n" in mover


def test_both_servers_serve_at_the_shared_address_and_only_there_to_phones() -> None:
    for number in (0, 1):
        files = _replica(number).files
        assert "listen=udp:10.0.0.1:5060\nlisten=tcp:10.0.0.1:5060\n" in files["kamailio.cfg"]
        assert "interface = 10.0.0.1\n" in files["rtpengine.conf"]
        # Before they are started: else the one without the address cannot listen at it.
        serve = files["serve"]
        assert serve.index("ip_nonlocal_bind") < serve.index("keep /") < serve.index("keep /usr/sbin/keepalived")
        assert serve.endswith("wait\n")


def test_a_replica_is_the_usual_server_and_more() -> None:
    usual, replica = ServerConfiguration(role="both", address="10.0.0.1").files, _replica(0).files
    assert set(replica) == {*usual, "keepalived.conf"}
    for name, text in usual.items():
        lines = iter(replica[name].splitlines())
        assert all(line in lines for line in text.splitlines()), name
    assert set(modules_of("replica")) - set(modules_of("both")) == {"dmq", "dmq_usrloc"}


def test_the_first_server_begins_with_the_address_and_nobody_takes_it_back() -> None:
    texts = [_replica(number, 100_000_000).files["keepalived.conf"] for number in (0, 1)]
    assert ["priority 150" in text for text in texts] == [True, False]
    assert all("nopreempt" in text and "advert_int 0.10\n" in text for text in texts)


@pytest.mark.parametrize("advertisement_ns", [9_999_999, 41_000_000_000])
def test_what_vrrp_cannot_count_is_refused(advertisement_ns: int) -> None:
    with pytest.raises(UsageError, match="VRRP cannot advertise every"):
        _replica(0, advertisement_ns)


def test_the_store_tells_of_changes_and_keeps_nothing_on_disk() -> None:
    options = store_options("10.0.0.4")
    assert options[options.index("--notify-keyspace-events") + 1] == "AKE"
    assert options[options.index("--save") + 1] == ""


@pytest.mark.parametrize(
    ("said", "card"),
    [
        ("10.0.0.1 dev clients lladdr 52:54:00:77:00:02 STALE\n", "52:54:00:77:00:02"),
        ("10.0.0.10 dev clients lladdr 52:54:00:77:00:02 STALE\n", None),
        ("10.0.0.1 dev clients INCOMPLETE\n", None),
        ("", None),
    ],
)
def test_the_card_of_the_shared_address_is_read(said: str, card: str | None) -> None:
    assert parse_card(said, "10.0.0.1") == card


def test_advertisements_are_the_interval_of_replicated_servers_alone() -> None:
    cells = RegisterFailoverCells.model_validate(
        {
            "probe": "register-failover",
            "duration": "3s",
            "mode": ["net", "replicated"],
            "advertisement": ["100ms", "1s"],
        }
    )
    found = [(one.stored["mode"], one.stored["interval_ns"]) for one in cells.parameter_sets()]
    assert found == [("net", 100_000_000), ("replicated", 100_000_000), ("replicated", 1_000_000_000)]


def _packet(at_ns: int, stream: str, digest: str) -> Datagram:
    return Datagram(at_ns, "10.0.0.1", 30000, 22000, "rtp", "", stream, digest)


def test_a_place_of_a_key_stream_with_two_contents_is_found() -> None:
    packets = [_packet(1, "a:1", "x"), _packet(2, "a:1", "x"), _packet(3, "a:2", "y"), _packet(8, "b:2", "z")]
    call = EncryptedCall(5, 10, packets, [], [], [], 0, hung_up=False)
    assert call.used_twice == 0
    assert replace(call, to_caller=[*packets, _packet(9, "a:2", "other")]).used_twice == 1


def test_silence_of_an_encrypted_call_lasts_to_its_end_where_nothing_comes_any_more() -> None:
    packets = [_packet(1, "a:1", "x"), _packet(3, "a:2", "y")]
    assert EncryptedCall(4, 20, packets, [], [], [], 0, hung_up=False).silence_ns(packets) == 17
    later = [*packets, _packet(9, "a:3", "z"), _packet(12, "a:4", "w"), _packet(19, "a:5", "v")]
    assert EncryptedCall(4, 20, later, [], [], [], 0, hung_up=False).silence_ns(later) == 7
