"""Gaps of known length in a path: does ``stealtime blackout`` find them to a millisecond, and what does ``ping`` say?

A client and a server live in network namespaces, with one link between them. At random moments the kernel drops every
frame for 5, 20, 100 or 1,000 ms, to the nanosecond (tests/rigs/exact_gaps.py): nobody stands in the path, and the truth
is what was ordered. Or the server is stopped for as long, by SIGSTOP and SIGCONT: what it was asked is *held*. The
client asks over TCP, UDP and ICMP echo at once, one probe each a millisecond (--interval); beside it runs
``ping -i 0.1`` (iputils) through the same gaps, where it is installed.

*Found* is a blackout that touches the gap; *within* one whose length differs from the gap by a millisecond at most;
*excused* a gap that is not told, since the client says that it stood still itself; *paused* one that is found and not
within, of which the client says the same; *bracketed* one between whose least and most the gap lies. *Unfounded* is a
blackout where there was no gap. TCP is told apart: what is dropped it sends again, so that its clients wait for longer
than the gap.

Needs root. The whole of it: --gaps 1000. It takes 25 minutes; parts of it by --length, --held 0 and so on.
"""

import json
import os
import sys
from dataclasses import asdict, replace
from typing import Any

from gaps.scoring import HEAD, Score, ping_score, score
from gaps.watching import Manner, Seen, Watching, watch
from pairs import arguments

LENGTHS_MS = (5.0, 20.0, 100.0, 1000.0)

PAUSES_MS = (55.0, 75.0)
"""Between two gaps: the path is even again, and gaps are a small part of all answers."""

SELDOM_MS = (1300.0, 1700.0)
"""As ping is made for."""


def judge(seen: Seen, watching: Watching) -> list[dict[str, Any]]:
    """Print what each way told of these gaps; give it as a document."""
    what = f"{watching.length_ms:g} ms, {watching.manner}"
    late = f"; {seen.late} left out, ordered too late" if seen.late else ""
    print(f"{what} ({seen.seconds:.0f} s, client {100 * seen.cpu_s / seen.seconds:.0f} % of a CPU{late})\n{HEAD}")
    rows = []
    for way in seen.document["ways"]:
        # A process that is stopped has a kernel that is not.
        if watching.manner == "dropped" or way["way"] != "ping":
            rows.append(row(what, way["way"], score(seen, way)))
    return rows


def judge_seldom(seen: Seen, watching: Watching) -> list[dict[str, Any]]:
    """Print what UDP and ping told of gaps that are seldom."""
    what = f"{watching.length_ms:g} ms, seldom"
    print(f"{what} ({seen.seconds:.0f} s)\n{HEAD}")
    udp = next(one for one in seen.document["ways"] if one["way"] == "udp")
    rows = [row(what, "udp", score(seen, udp))]
    if seen.ping is None:
        print("  ping is not installed")
        return rows
    return [*rows, row(what, "ping -i 0.1", ping_score(seen, seen.ping))]


def row(what: str, name: str, one: Score) -> dict[str, Any]:
    """Print and give one row."""
    print(one.line(name), flush=True)
    return {"gap": what, "over": name, **asdict(one)}


def judge_quiet(seen: Seen) -> list[dict[str, Any]]:
    """Print what was told where nothing was."""
    print(f"no gap ({seen.seconds:.0f} s): blackouts, of probes; and silences that were not judged")
    rows = []
    for way in seen.document["ways"]:
        told = [round(one["length_ns"] / 1e6, 2) for one in way["blackouts"]]
        print(f"  {way['way']:14}{len(told):6} of {way['sent']:,}; {len(way['unjudged'])}   {told or ''} ms")
        rows.append({"gap": "none", "over": way["way"], "blackouts": way["blackouts"], "unjudged": way["unjudged"]})
    return rows


def main() -> int:
    parser = arguments(__doc__, pairs=1)
    parser.add_argument("--length", type=float, action="append", help="of the gaps, in ms; default 5, 20, 100, 1000")
    parser.add_argument("--gaps", type=int, default=100, help="of each length, dropped")
    parser.add_argument("--long", type=int, default=20, help="the same, of 1,000 ms")
    parser.add_argument("--held", type=int, default=30, help="gaps of each length, held; of 1,000 ms a fifth of them")
    parser.add_argument("--seldom", type=int, default=6, help="gaps of each length that are seldom, beside ping")
    parser.add_argument("--quiet-s", type=float, default=60, help="seconds without a gap")
    parser.add_argument("--interval", default="1ms", help="from one probe to the next")
    parser.add_argument("--no-tcp", action="store_true", help="ask over UDP and ICMP echo only")
    parser.add_argument("--awake", action="store_true", help="keep idle CPUs from halting: a host may wake them late")
    parser.add_argument("--seed", type=int, default=20261124)
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("namespaces need root")
    machine = f"{os.cpu_count()} CPUs, {os.uname().release}, load {os.getloadavg()[0]:.1f}"
    machine += ", kept awake" if options.awake else ""
    print(f"gaps of known length, a probe each {options.interval} over each way ({machine}), seed {options.seed}")
    plain = Watching(options.interval, not options.no_tcp, 0.0, 0, "dropped", PAUSES_MS, options.seed, options.awake)
    found: list[dict[str, Any]] = []
    lengths_ms = options.length or LENGTHS_MS
    manners: dict[Manner, int] = {"dropped": options.gaps, "held": options.held}
    for manner, wanted in manners.items():
        for length_ms in lengths_ms:
            few = options.long if manner == "dropped" else wanted // 5
            count = min(wanted, few) if length_ms >= 1000 else wanted
            if count:
                watching = replace(plain, length_ms=length_ms, count=count, manner=manner)
                found += judge(watch(watching), watching)
    for length_ms in lengths_ms if options.seldom else ():
        watching = replace(plain, length_ms=length_ms, count=options.seldom, pauses_ms=SELDOM_MS)
        found += judge_seldom(watch(watching), watching)
    if options.quiet_s:
        found += judge_quiet(watch(replace(plain, quiet_s=options.quiet_s)))
    print("target: found within 1 ms in 99.9 % over UDP and ICMP echo; no false alarm")
    if options.json:
        print(json.dumps({"machine": machine, "seed": options.seed, "found": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
