"""Phones that turn to their next target: what they send, what is an answer to them, when they turn, how long it was."""

import asyncio
import io
import json
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stealtime.studies.telephony.registrations.front_lost import front_lost
from stealtime.studies.telephony.registrations.request import (
    Request,
    Response,
    ResponseReader,
    parse_response,
    resent_after_s,
)
from stealtime.studies.telephony.registrations.turning import Turned
from stealtime.studies.telephony.registrations.turning_phones import (
    Attempt,
    Phone,
    PhoneDone,
    Phones,
    PhonesOrder,
    outcome_of,
    parse_done,
    parse_order,
)

MS = 1_000_000
REQUEST = Request("anna", "telephony.test", "127.0.0.1")
TIMER_F_NS = 60 * MS


def answer(request: bytes, status: int, body: bytes = b"") -> bytes:
    """Answer as a server does: with the Via of the request."""
    via = next(line for line in request.split(b"\r\n") if line.startswith(b"Via:"))
    return b"SIP/2.0 %d Word\r\n%s\r\nContent-Length: %d\r\n\r\n%s" % (status, via, len(body), body)


def test_a_request_is_sent_again_as_timer_e_says_until_timer_f_ends() -> None:
    assert resent_after_s(32.0) == [0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5, 23.5, 27.5, 31.5]
    assert resent_after_s(0.5) == []


def test_the_next_target_gets_the_same_request_in_another_transaction_with_a_higher_number() -> None:
    first, second = (REQUEST.text(number, "udp", 5070).split(b"\r\n") for number in (0, 1))
    differing = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    assert [one.split(b":")[0] for one, _ in differing] == [b"Via", b"CSeq"]
    # The first one may have been carried out, and its answer been lost.
    assert differing[1] == (b"CSeq: 1 REGISTER", b"CSeq: 2 REGISTER")
    assert REQUEST.branch(0) != REQUEST.branch(1) != replace(REQUEST, user="berta").branch(1)
    assert first[0] == b"REGISTER sip:telephony.test SIP/2.0"
    assert first[1].startswith(b"Via: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bK")


def test_an_answer_is_known_by_the_branch_of_its_first_via() -> None:
    own = REQUEST.branch(0)
    assert parse_response(answer(REQUEST.text(0, "udp", 5070), 200)) == Response(200, own)
    compact = f"SIP/2.0 503 Busy\r\nv: SIP/2.0/UDP h;rport=1;branch={own}\r\nVia: SIP/2.0/UDP x;branch=other\r\n\r\n"
    assert parse_response(compact.encode()) == Response(503, own)
    for other in (
        b"",
        b"\0\0",
        b"OPTIONS sip:a SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=b\r\n\r\n",
        b"SIP/2.0 200 OK\r\n\r\n",
    ):
        assert parse_response(other) is None


@given(st.lists(st.integers(min_value=1, max_value=700), max_size=20))
def test_answers_are_found_in_a_stream_wherever_it_is_cut(cuts: list[int]) -> None:
    texts = [REQUEST.text(number, "tcp", 5070) for number in range(3)]
    stream = answer(texts[0], 200, b"v=0\r\n\r\nbody") + answer(texts[1], 100) + answer(texts[2], 404)
    reader, found, begin = ResponseReader(), [], 0
    for end in [*sorted(cuts), len(stream)]:
        found += reader.feed(stream[begin:end])
        begin = max(begin, end)
    assert [(one.status, one.branch[-1]) for one in found] == [(200, "0"), (100, "1"), (404, "2")]


def test_an_order_and_what_came_of_it_are_read_as_they_were_written() -> None:
    order = PhonesOrder("10.0.0.9", "a.test", "udp", 5, (Phone("anna", 3, (("10.0.0.1", 5060), ("10.0.0.2", 5070))),))
    assert parse_order(json.dumps(asdict(order))) == order
    done = PhoneDone("anna", (Attempt("10.0.0.1", 1, 2, "timed out", None, 3),))
    assert parse_done(json.dumps(asdict(done))) == done


class _Server(asyncio.DatagramProtocol):
    """Answers every request with one status; None: never."""

    def __init__(self, status: int | None) -> None:
        self._status = status

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        if self._status is not None:
            self._transport.sendto(answer(data, self._status), address)


Serve = Callable[[int | None], Awaitable[tuple[str, int]]]


async def _udp_server(status: int | None) -> tuple[str, int]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: _Server(status), local_addr=("127.0.0.1", 0))
    return ("127.0.0.1", transport.get_extra_info("sockname")[1])


async def _tcp_server(status: int | None) -> tuple[str, int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await reader.readuntil(b"\r\n\r\n")) and status is not None:
            if status == 0:
                writer.close()
                return
            writer.write(answer(request, status))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return ("127.0.0.1", server.sockets[0].getsockname()[1])


def _closed_port(kind: socket.SocketKind) -> tuple[str, int]:
    with socket.socket(type=kind) as freed:
        freed.bind(("127.0.0.1", 0))
        return ("127.0.0.1", freed.getsockname()[1])


async def _tried(transport: str, *servers: int | tuple[str, int] | None) -> PhoneDone:
    """Have a phone try servers: closed ports, or such as answer with a status."""
    serve: Serve = _udp_server if transport == "udp" else _tcp_server
    targets = tuple([one if isinstance(one, tuple) else await serve(one) for one in servers])
    done = io.StringIO()
    order = PhonesOrder("127.0.0.1", "a.test", transport, TIMER_F_NS, (Phone("anna", 0, targets),))  # type: ignore[arg-type]
    await Phones(order, done).register_all()
    return parse_done(done.getvalue())


@pytest.mark.parametrize("transport", ["udp", "tcp-one", "tcp-each"])
def test_a_phone_turns_when_nobody_answers_and_not_when_it_is_refused(transport: str) -> None:
    closed = _closed_port(socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM)

    def tried(*servers: int | tuple[str, int] | None) -> list[str]:
        return [one.outcome for one in asyncio.run(_tried(transport, *servers)).attempts]

    assert tried(200, 200) == ["answered"]
    assert tried(closed, 200) == ["undelivered", "answered"]
    assert tried(503, closed, 200) == ["unavailable", "undelivered", "answered"]
    assert tried(403, 200) == ["refused"]
    assert tried(None, 200) == ["timed out", "answered"]
    assert tried(closed, closed) == ["undelivered", "undelivered"]


def test_a_connection_that_closes_before_the_answer_has_not_delivered_the_request() -> None:
    done = asyncio.run(_tried("tcp-one", 0, 200))
    assert [one.outcome for one in done.attempts] == ["undelivered", "answered"]


def test_a_silent_target_costs_timer_f_and_that_is_told() -> None:
    before_ns = time.monotonic_ns()
    silent, other = asyncio.run(_tried("udp", None, 200)).attempts
    assert TIMER_F_NS <= silent.ended_ns - silent.sent_ns <= other.ended_ns - before_ns
    assert other.sent_ns >= silent.ended_ns


def test_an_answer_of_another_transaction_is_nobodys() -> None:
    assert [outcome_of(status) for status in (None, 200, 503, 404)] == [
        "undelivered", "answered", "unavailable", "refused",
    ]  # fmt: skip


def _done(user: str, *attempts: tuple[str, int, int, str]) -> PhoneDone:
    return PhoneDone(user, tuple(Attempt(to, sent, ended, what, None, 0) for to, sent, ended, what in attempts))  # type: ignore[arg-type]


def test_a_wait_is_that_of_one_phone_through_all_that_it_tried() -> None:
    turned = Turned(
        [
            _done("before", ("1", 0, 5, "answered")),
            _done("other", ("2", 10, 15, "answered")),
            _done("flying", ("1", 18, 520, "undelivered"), ("2", 520, 530, "answered")),
            _done("late", ("1", 30, 31, "undelivered"), ("2", 31, 40, "answered")),
            _done("calm", ("2", 50, 56, "answered")),
        ]
    )
    seen = front_lost(turned, frozenset({"before", "flying", "late"}), "1", 20, 32)
    assert (seen.phones, seen.turned, seen.undelivered, seen.timed_out) == (3, 2, 2, 0)
    assert (seen.longest_wait_ns, seen.median_wait_ns) == (512, 261)
    # Acknowledged at 5, then at 40 and 530; the others at 15 and 56.
    assert (seen.silence_ns, seen.others_silence_ns, seen.others_silence_before_ns) == (490, 41, None)
    assert turned.answered_by == {"before": "1", "other": "2", "flying": "2", "late": "2", "calm": "2"}
    lost = Turned([*turned.done, _done("gone", ("1", 600, 700, "timed out"), ("2", 700, 800, "timed out"))])
    alone = front_lost(lost, frozenset({"before", "flying", "late", "gone"}), "1", 20, 32)
    assert (alone.silence_ns, alone.turned, alone.timed_out) == (None, 2, 1)
