"""A machine that several test modules share: booted once, with a client that counts through all of them."""

from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from evidence import Witness
from real_etcd import Etcd
from two_hosts import TIMING, Counting, TwoHosts, assert_unharmed, keep_evidence, laboratory_or_skip

from stealtime.vocabulary.errors import StealtimeError

_TIMING = {**TIMING, "register_deadline": "2500ms", "qemu_deadline": "60s"}
"""Most tests wait for what happens after this deadline, and nobody here is struck unawares."""


@dataclass(frozen=True)
class Watched:
    """A protected machine whose register is an etcd, its client, and who watches over it."""

    hosts: TwoHosts
    etcd: Etcd
    witness: Witness
    counting: Counting

    def assert_unharmed(self) -> None:
        """Assert that all flows are answered and nothing they saw is missing, and that one at a time was active."""
        self.hosts.settled()
        self.counting.await_answers()
        assert self.hosts.ask("check")["mismatches"] == 0
        self.witness.assert_all()
        self.witness.assert_leases_ended_before_the_next()


class Shared:
    """Boots the machine when it is wanted first, and anew after a test has failed with it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._machine: Watched | None = None

    def take(self) -> Watched:
        """Give the machine, which is protected."""
        if self._machine is None:
            laboratory = self._stack.enter_context(laboratory_or_skip())
            try:
                etcd = Etcd(laboratory)
            except StealtimeError as error:
                pytest.skip(f"no register to be cut off from: {error.message}")
            hosts = TwoHosts(laboratory, etcd, interval="100ms", timing=_TIMING)
            witness = self._stack.enter_context(Witness(hosts))
            hosts.boot()
            self._machine = Watched(hosts, etcd, witness, Counting(hosts, linear_timeouts=True))
            self._machine.counting.await_answers()
        return self._machine

    def end(self, *, has_failed: bool) -> None:
        """Hold what the client has seen against the counter, unless a test has failed; then remove everything."""
        machine, self._machine = self._machine, None
        with self._stack.pop_all():
            if machine is not None and not has_failed:
                try:
                    assert_unharmed(machine.counting.end())
                except AssertionError as error:
                    error.add_note(f"what the members wrote is in {keep_evidence()}")
                    raise
