"""Two protected appliances on one host, each with phones of its own, and what all of that was counted as."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from counting_guest import PATIENT_TIMING
from sip_capture import Capture
from two_hosts import laboratory_or_skip

from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.hosts.standby_memory import standby_memory
from stealtime.studies.telephony.place.appliances import AppliancesPlace
from stealtime.studies.telephony.registrations.load import Load, fresh_names, run_load, unknown_users

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
    pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed"),
]


def test_each_of_two_appliances_has_its_own_phones_and_both_have_one_standby(tmp_path: Path) -> None:
    with laboratory_or_skip() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        place = AppliancesPlace(testbed, "two", "net", appliances=2, timing=PATIENT_TIMING)
        place.start()
        place.await_ready()
        assert [member.host for member in place.await_protected()] == ["a", "a"]
        load = Load(transport="udp", rate_per_s=60, count=120, names=fresh_names())
        with Capture(laboratory) as capture:
            registered, used, _ = run_load(place, load, tmp_path / "load")
        assert registered.unanswered == 0
        first, second = place.addresses
        # Phones are dealt in turn: each appliance knows its own, and none of the other's.
        assert sorted(unknown_users(place.client, first, load.users, tmp_path / "first")) == load.users[1::2]
        assert sorted(unknown_users(place.client, second, load.users, tmp_path / "second")) == load.users[0::2]
        # What the link counted is what a tap of its own saw of SIP, and some ARP.
        work = registered.work
        assert work is not None
        assert capture.dropped == 0
        assert 0 <= work.packets_in - capture.counts["REGISTER"] <= 20
        assert 0 <= work.packets_out - capture.counts["200 REGISTER"] <= 20
        assert work.connections == 0
        assert work.generators_cpu_ns is not None
        # The standby is a part of the host side, and stands by for both: of each guest it has a copy.
        assert used.standby_ns is not None
        assert used.host_ns is not None
        assert 0 < used.standby_ns < used.host_ns
        memory = place.standby_memory()
        assert memory is not None
        running = standby_memory([replace(one, stands_by=not one.stands_by) for one in testbed.processes()])
        assert running is not None
        assert 0.5 * running.ram_bytes < memory.ram_bytes < 1.5 * running.ram_bytes
        each = Load(transport="tcp-each", rate_per_s=40, count=40, names=fresh_names())
        registered, _, _ = run_load(place, each, tmp_path / "each")
        assert registered.work is not None
        assert registered.work.connections == 40, (registered.unanswered, registered.finished)
        assert sum(len(rows) > 0 for rows in place.epochs_since(place.members(), registered.begun_ns)) == 2
