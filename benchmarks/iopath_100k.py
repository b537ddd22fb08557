"""The ways of 100,000 disk requests against the traces of guest, host and emulator: ours against pairing by order.

A guest's and a host's trace are made once from a seed: each request has its nine moments, and other system calls and
switches lie between. Ours finds the moments by the place on the disk and by time. The plain side is numpy: it takes the
n-th event of each kind for the n-th request, which is right only since here no request overtakes another and none is
missing; it must find the same of every request.

Target: ours in at most 2 s, from columns in memory; in the ratio the plain side is told what ours has to find, so that
only its growth says something. Printed, not asserted.
"""

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pairs import Ratio, arguments, take_turns

from stealtime._core import EVENT_KINDS, REQUEST_PARTS, split_requests

if TYPE_CHECKING:
    from stealtime._core import EventsDict, RequestsDict, SplitRequestsDict

VIRTUAL_CPU, WORKER, OTHER = 100, 101, 300
OFFSET = 123_456
NO_NAME = 2**32 - 1
TARGET_S = 2.0
PLAIN = ("submit", "notify", "take", "host_io", "complete", "deliver", "handle", "wake")


@dataclass(frozen=True)
class Case:
    """What both sides get."""

    requests: "RequestsDict"
    guest: "EventsDict"
    host: "EventsDict"
    raised: NDArray[np.uint64]


def make_case(requests: int, beside: int, seed: int) -> Case:
    """Write down so many requests one after the other, with so many other calls of the emulator beside each."""
    random = np.random.default_rng(seed)
    moments = np.cumsum(random.integers(2_000, 40_000, (requests, 9)), axis=1)
    moments += (np.arange(requests) * 9 * 40_000 + 1_000_000)[:, None]
    sector = random.permutation(requests * 2)[:requests] * 8
    submitted, issued, notified, begun, done, raised, handled, completed, returned = moments.T
    guest = _events(
        (issued, 0, "block_issue", 5, sector, 8),
        (handled, 0, "interrupt_entry", 5, 32, 0),
        (completed, 0, "block_complete", 5, sector, 8),
    )
    calls = np.repeat(begun, beside) + np.tile(np.arange(beside) + 1, requests)
    host = _events(
        (notified - OFFSET, 1, "call_entry", VIRTUAL_CPU, 1, 0),
        (begun - OFFSET, 0, "file_call", WORKER, sector * 512, 3),
        (done - OFFSET, 0, "call_exit", WORKER, 17, 0),
        (calls - OFFSET, 0, "call_entry", OTHER, 271, 0),
    )
    asked: RequestsDict = {
        "submitted": submitted.astype(np.uint64),
        "returned": returned.astype(np.uint64),
        "offset_bytes": (sector * 512).astype(np.uint64),
    }
    return Case(asked, guest, host, (raised - OFFSET).astype(np.uint64))


def _events(*rows: tuple[Any, int, str, int, Any, int]) -> "EventsDict":
    times = np.concatenate([row[0] for row in rows])
    order = np.argsort(times, kind="stable")

    def column(place: int, kind: type) -> NDArray[Any]:
        return np.concatenate([np.broadcast_to(row[place], len(row[0])) for row in rows]).astype(kind)[order]

    codes = np.concatenate([np.full(len(row[0]), EVENT_KINDS.index(row[2])) for row in rows])
    events: EventsDict = {
        "time": times[order].astype(np.uint64),
        "cpu": column(1, np.uint16),
        "kind": codes[order].astype(np.uint8),
        "thread": column(3, np.int32),
        "value": column(4, np.int64),
        "other": column(5, np.int32),
        "priority": np.zeros(len(times), np.int16),
        "name": np.full(len(times), NO_NAME, np.uint32),
        "names": [],
        "covered": (0, int(times.max())),
    }
    return events


def split_ours(case: Case) -> "SplitRequestsDict":
    return split_requests(case.requests, case.guest, case.host, [VIRTUAL_CPU], (case.raised, 0), (OFFSET, OFFSET))


def split_plainly(case: Case) -> dict[str, NDArray[np.int64]]:
    """Give the parts of each request by the order of events alone."""

    def times(events: "EventsDict", kind: str, thread: int | None = None) -> NDArray[np.int64]:
        chosen = events["kind"] == EVENT_KINDS.index(kind)
        if thread is not None:
            chosen &= events["thread"] == thread
        found: NDArray[np.int64] = events["time"][chosen].astype(np.int64)
        return found

    moments = [
        case.requests["submitted"].astype(np.int64),
        times(case.guest, "block_issue"),
        times(case.host, "call_entry", VIRTUAL_CPU) + OFFSET,
        times(case.host, "file_call") + OFFSET,
        times(case.host, "call_exit") + OFFSET,
        case.raised.astype(np.int64) + OFFSET,
        times(case.guest, "interrupt_entry"),
        times(case.guest, "block_complete"),
        case.requests["returned"].astype(np.int64),
    ]
    return {part: moments[place + 1] - moments[place] for place, part in enumerate(PLAIN)}


def check(case: Case) -> None:
    """Both sides must find the same of every request; else their times mean nothing."""
    parts, plain = split_ours(case)["parts"], split_plainly(case)
    for part in REQUEST_PARTS:
        expected = plain.get(part, np.zeros(len(case.requests["submitted"]), np.int64))
        differing = int(np.count_nonzero(parts[part].astype(np.int64) != expected))
        if differing:
            raise SystemExit(f"the sides do not agree on {part} of {differing} requests")


def main() -> None:
    parser = arguments(__doc__, pairs=3)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--beside", type=int, default=20, help="other system calls while a request is at the host")
    parser.add_argument("--seed", type=int, default=20261129)
    chosen = parser.parse_args()
    case = make_case(chosen.requests, chosen.beside, chosen.seed)
    check(case)

    def ours() -> float:
        began = time.perf_counter()
        split_ours(case)
        return time.perf_counter() - began

    def plain() -> float:
        began = time.perf_counter()
        split_plainly(case)
        return time.perf_counter() - began

    pairs: list[Any] = list(take_turns(chosen.pairs, {"ours": ours, "plain": plain}))
    ratio = Ratio("iopath_100k", "s", 25, tuple(pairs))
    worst_s = max(pair["ours"] for pair in pairs)
    ratio.print(as_json=chosen.json, target_s=TARGET_S, slowest_s=worst_s)
    if not chosen.json:
        print(f"target: ours <= {TARGET_S} s; slowest {worst_s:.2f} s")


if __name__ == "__main__":
    main()
