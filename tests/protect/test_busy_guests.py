"""Guests that write much while they are copied: no larger first epoch than others, or they stay unprotected."""

import csv
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from odd_host import counting_on
from spoiled_hosts import SpoiledHosts
from two_hosts import TwoHosts, assert_unharmed, await_that, laboratory_or_skip

from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

_DOES_NOT_CONVERGE = "the copy in advance does not converge"


def epochs_by_term(hosts: TwoHosts, name: str) -> dict[int, list[int]]:
    """Give the pages of each epoch that was captured on a host, by its term."""
    terms: dict[int, list[int]] = {}
    with hosts.member(name).epochs.open() as file:
        for row in csv.DictReader(file):
            if None not in row.values():
                terms.setdefault(int(row["term"]), []).append(int(row["pages"]))
    return terms


@contextmanager
def slow_lines(**machine: Any) -> Iterator[SpoiledHosts]:
    """Have a protected guest, whose hosts talk over lines that can be slowed."""
    with laboratory_or_skip() as laboratory:
        chance = random.Random(0)  # noqa: S311 - nothing is spoiled by chance
        hosts = SpoiledHosts(laboratory, chance, interval="100ms", **machine)
        try:
            hosts.boot()
            yield hosts
        finally:
            for line in hosts.lines.values():
                line.close()


@pytest.mark.truth
def test_after_a_busy_guest_was_copied_anew_its_first_epoch_is_like_the_others() -> None:
    # Some 2,000 pages an epoch; while all memory is copied, for seconds, all 12,288 are written.
    program = ["tcp=7000", "udp=7000", "memory=48MiB", "dirty=200/10ms"]
    with slow_lines(program_arguments=program) as hosts:
        hosts.line_to("b").full_copy_bytes_per_s = 8e6
        standby = hosts.pid("b")
        hosts.kill(standby)
        after = hosts.settled(unlike=frozenset({standby}))
        assert after.host == "a"
        # The copy was made in the term of the member alone; the first epoch is the only one of that term.
        await_that(lambda: len(epochs_by_term(hosts, "a").get(after.term, [])) >= 15, hosts.log_tail)
        terms = epochs_by_term(hosts, "a")
        first, others = terms[after.term - 1], terms[after.term]
        assert len(first) == 1
        # What is written until the first one is acknowledged and the standby is named is in the second one.
        steady = others[5:]
        assert max(first[0], others[0]) <= 2 * max(steady), (first, others)
        copies = [event for event in hosts.events("a") if event["event"] == "copied-in-advance"]
        assert copies[-1]["converges"] is True
        # One round was enough, and took what else would have been in the first epoch; or there were several.
        assert copies[-1]["rounds"] > 1 or copies[-1]["pages"] > 2 * max(steady)


@contextmanager
def copied_anew_over_a_slow_line(**machine: str) -> Iterator[SpoiledHosts]:
    """Take the standby from a guest that writes more than the line then carries."""
    program = ["tcp=7000", "udp=7000", "memory=24MiB", "dirty=500/10ms"]
    with slow_lines(program_arguments=program, **machine) as hosts:
        standby = hosts.pid("b")
        # A round of all the pages of the program takes more than a second. At once: over this line its heartbeats wait
        # behind its pages, so that it would lose this standby by itself.
        hosts.line_to("b").bytes_per_s = 1e6
        hosts.kill(standby)
        yield hosts


def warning_of(status: MemberStatus | None) -> str | None:
    warnings = status.warnings if status is not None else ()
    return next((text for text in warnings if text.startswith(_DOES_NOT_CONVERGE)), None)


def await_warning(hosts: TwoHosts) -> str:
    return await_that(lambda: warning_of(hosts.status("a")), hosts.log_tail)


@pytest.mark.truth
def test_a_guest_that_would_stand_too_long_stays_unprotected_and_says_so_until_the_line_is_faster() -> None:
    with copied_anew_over_a_slow_line(longest_first_pause="1ms") as hosts:
        said = await_warning(hosts)
        assert "longer than 1 ms, so it stays unprotected and is tried again (hint: " in said
        before = hosts.status("a")
        assert before is not None
        assert (before.role, before.protected) == ("solo", False)
        counting = counting_on(hosts)
        hosts.line_to("b").bytes_per_s = None
        after = hosts.settled()
        assert after.pid == before.pid
        assert warning_of(after) is None
        # It went on over the same link: all memory was copied once.
        links = [event for event in hosts.events("a") if event["event"] == "linked"]
        assert len(links) == 2, hosts.log_tail()
        assert_unharmed(counting.end())


@pytest.mark.truth
def test_a_guest_that_stands_no_longer_than_allowed_is_protected_all_the_same_and_says_so() -> None:
    with copied_anew_over_a_slow_line() as hosts:
        said = await_warning(hosts)
        assert "for the first epoch the guest stands for some" in said
        # So that its output need not wait for an epoch of all the pages that it writes.
        assert "although the guest was held back for" in said
        after = hosts.settled()
        assert after.host == "a"
        hosts.line_to("b").bytes_per_s = None
        hosts.settled()


@pytest.mark.truth
def test_a_guest_that_writes_more_than_the_line_carries_is_held_back_until_it_carries_more() -> None:
    program = ["tcp=7000", "udp=7000", "memory=48MiB", "dirty=100/10ms"]
    with slow_lines(program_arguments=program) as hosts:
        before = hosts.settled()
        free = epochs_of(hosts, before.term, 30)
        assert sum(int(row["held_back_ns"]) for row in free) == 0
        in_an_interval = max(int(row["pages"]) for row in free)
        counting = counting_on(hosts)
        # Of what is written two thirds: heartbeats wait behind the pages that are on their way.
        bytes_of_an_epoch = max(int(row["shipped_bytes"]) for row in free)
        hosts.line_to("b").bytes_per_s = 10 * bytes_of_an_epoch * 2 / 3
        said = await_that(lambda: _held_back(hosts.status("a")), hosts.log_tail)
        assert said.endswith(" % of the time: it writes more than b takes")
        slow = epochs_of(hosts, before.term, 12)
        hosts.line_to("b").bytes_per_s = None
        # One and a half of what it writes in an interval, and what it writes until it stands.
        assert max(int(row["pages"]) for row in slow) <= 2 * in_an_interval, (free, slow)
        assert max(int(row["held_back_longest_ns"]) for row in slow) > 0
        await_that(lambda: _held_back(hosts.status("a")) is None, hosts.log_tail)
        after = hosts.settled()
        assert (after.pid, after.term) == (before.pid, before.term), "it was protected all the time"
        assert_unharmed(counting.end())


def _held_back(status: MemberStatus | None) -> str | None:
    warnings = status.warnings if status is not None else ()
    return next((text for text in warnings if text.startswith("the guest is held back for ")), None)


def epochs_of(hosts: TwoHosts, term: int, count: int) -> list[dict[str, str]]:
    """Wait for so many further epochs of the member on ``a``, and give them."""

    def rows() -> list[dict[str, str]]:
        with hosts.member("a").epochs.open() as file:
            return [row for row in csv.DictReader(file) if None not in row.values() and int(row["term"]) == term]

    before = len(rows())
    await_that(lambda: len(rows()) >= before + count, hosts.log_tail)
    return rows()[before:]
