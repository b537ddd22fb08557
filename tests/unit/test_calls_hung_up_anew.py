"""Calls that lost their connection: hung up over a new one by a program of ours, and told apart from the others."""

import socketserver
import threading
from collections.abc import Iterator

import pytest

from stealtime.hosts.client import LocalClient
from stealtime.studies.telephony.appliance.configuration import SIP_PORT
from stealtime.studies.telephony.calls.answers import gather
from stealtime.studies.telephony.calls.hang_up import Dialogue, hang_up
from stealtime.studies.telephony.sipp.log import parse_log

CLIENT, SERVER = "127.0.9.1", "127.0.9.2"
LOG = (
    "dialogue 20002 2-77@127.0.9.1,77-caller-2,75-callee-2,<sip:127.0.9.2;transport=tcp;lr;ftag=77-caller-2>,"
    "sip:24002@127.0.9.1:5071;transport=TCP|2026-11-28\t10:58:05.692309\t1795863485.692309\n"
)


@pytest.fixture
def asked() -> Iterator[list[bytes]]:
    """A server that knows the first call, has forgotten the second, and hangs up on the third; what it was asked."""
    heard: list[bytes] = []

    class Proxy(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                request += self.request.recv(4096)
            heard.append(request)
            if b"BYE sip:24000@" in request:
                self.request.sendall(b"SIP/2.0 100 Trying\r\n\r\nSIP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n")
            elif b"BYE sip:24002@" in request:
                self.request.sendall(b"SIP/2.0 404 Not Here\r\nContent-Length: 0\r\n\r\n")

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True

    with Server((SERVER, SIP_PORT), Proxy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield heard
        server.shutdown()
        thread.join()


def _told(call: int, phone: int) -> Dialogue:
    text = f"{call}@c,own,theirs,<sip:{SERVER};lr>,sip:{phone}@{CLIENT}:5071;transport=TCP"
    return Dialogue.told(call, phone, text, CLIENT, SERVER)


def test_a_call_is_ended_where_its_bye_is_answered_with_200(asked: list[bytes]) -> None:
    client = LocalClient(CLIENT)
    ended = hang_up(client, SERVER, [_told(20000, 24000), _told(20002, 24002), _told(20004, 24004)])
    assert ended == [20000]
    assert len(asked) == 3


def test_nobody_who_listens_ends_no_call() -> None:
    assert hang_up(LocalClient(CLIENT), SERVER, [_told(20000, 24000)]) == []


def test_a_bye_holds_what_the_caller_knew_of_its_call() -> None:
    answers = gather(parse_log(LOG, 0))
    assert (answers.relays, answers.ended_ns) == ({}, {})
    lines = Dialogue.told(20002, 24002, answers.dialogues[20002], CLIENT, SERVER).bye(CLIENT).decode().split("\r\n")
    assert lines[0] == "BYE sip:24002@127.0.9.1:5071;transport=TCP SIP/2.0"
    assert lines[-2:] == ["", ""]
    headers = dict(line.split(": ", 1) for line in lines[1:-2])
    assert headers.pop("Via").startswith(f"SIP/2.0/TCP {CLIENT};branch=z9hG4bK")
    assert headers == {
        "Route": "<sip:127.0.9.2;transport=tcp;lr;ftag=77-caller-2>",
        "From": "<sip:caller-20002@127.0.9.1>;tag=77-caller-2",
        "To": "<sip:24002@127.0.9.2>;tag=75-callee-2",
        "Call-ID": "2-77@127.0.9.1",
        "CSeq": "3 BYE",
        "Max-Forwards": "70",
        "Content-Length": "0",
    }
