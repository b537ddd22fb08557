"""Callers over TCP call from a port whose earlier connection is forgotten."""

import socket

import pytest

from stealtime.hosts.client import LocalClient
from stealtime.studies.telephony.calls.dialogues import callers_port
from stealtime.studies.telephony.sipp.ports import PORTS, free_port, ports_taken
from stealtime.vocabulary.errors import StealtimeError

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0901004D:13C5 6401004D:13C4 04 0000023A:00000000 01:00000C2A 00000009     0        0 0 2 0000000000000000
   1: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0000000000000000
"""
"""What a lost connection leaves: in FIN_WAIT1, with what nobody acknowledges."""


def test_ports_are_read_whatever_the_state_of_their_connections() -> None:
    assert ports_taken(TABLE) == {5061, 22}
    assert ports_taken("") == set()


def test_a_port_with_a_connection_is_passed_over() -> None:
    client = LocalClient("127.0.9.4")
    with socket.create_server(("127.0.9.5", 0)) as server, socket.socket() as taken:
        taken.bind(("127.0.9.4", 0))
        taken.connect(server.getsockname())
        port = taken.getsockname()[1]
        assert port < free_port(client, port) < port + PORTS
        # Over UDP nothing is left of anybody.
        assert callers_port(client, "udp", port) == port
        assert callers_port(client, "tcp-one", port) > port


def test_it_is_told_where_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stealtime.studies.telephony.sipp.ports.ports_taken", lambda _: set(range(5061, 5071)))
    with pytest.raises(StealtimeError, match="from 5061 to 5070 are left from earlier trials"):
        free_port(LocalClient("127.0.9.4"), 5061)
