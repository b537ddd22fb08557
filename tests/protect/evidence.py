"""What members and the register wrote down, held against the rule that one member at a time may be active."""

import csv
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from two_hosts import HOSTS, VM, TwoHosts

_POLL_S = 0.02
"""The register keeps its last 16 records; it takes several seconds until that many are written."""


@dataclass
class Witness:
    """Collects while a campaign runs, since members and the register keep only the last of what they write."""

    hosts: TwoHosts
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What the register held, by the number of its file."""
    releases: dict[tuple[int, str, int], int] = field(default_factory=dict)
    """When the output of an epoch left, by term, host and epoch."""
    _is_over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "Witness":
        self._thread = threading.Thread(target=self._watch_register)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def note_releases(self) -> None:
        """Take up what was released so far: an active member begins its file anew."""
        for name in HOSTS:
            path = self.hosts.member(name).path / "epochs.csv"
            if not path.exists():
                continue
            with path.open() as file:
                for row in csv.DictReader(file):
                    # The last line of a member that was killed may be cut off.
                    if None in row.values():
                        continue
                    cut_ns = int(row["begin_ns"]) + int(row["stop_ns"]) + int(row["cut_ns"])
                    key = (int(row["term"]), name, int(row["epoch"]))
                    self.releases[key] = cut_ns + int(row["hold_ns"])

    def events(self) -> list[dict[str, Any]]:
        """Give what all members wrote, in the order in which it happened."""
        events: list[dict[str, Any]] = []
        for name in HOSTS:
            path = self.hosts.member(name).path / "events.jsonl"
            events += [json.loads(line) for line in path.read_text().splitlines()]
        return sorted(events, key=lambda event: int(event["monotonic_ns"]))

    def assert_one_holder(self) -> int:
        """Assert that no term had two holders, and that nobody was active without holding it; give how many were."""
        holders: dict[int, set[str]] = {}
        for record in self.records.values():
            if record["holder"] is not None:
                holders.setdefault(int(record["term"]), set()).add(str(record["holder"]))
        assert all(len(names) == 1 for names in holders.values()), holders
        active = [event for event in self.events() if event["event"] == "active"]
        terms = [int(event["term"]) for event in active]
        assert terms == sorted(set(terms)), f"terms do not rise from one active member to the next: {active}"
        for event in active:
            holder = next(iter(holders[int(event["term"])]))
            assert event["host"] == holder.partition("@")[0], f"{event}, but {holder} held that term"
        return len(active)

    def assert_no_late_release(self) -> int:
        """Assert that nobody released once a later member was active; give how many releases were looked at."""
        self.note_releases()
        active = [event for event in self.events() if event["event"] == "active"]
        for (term, host, epoch), released_ns in self.releases.items():
            for event in active:
                is_successor = int(event["term"]) > term and event["host"] != host
                assert not (is_successor and released_ns > int(event["monotonic_ns"])), (
                    f"{host} released epoch {epoch} of term {term} at {released_ns}, after {event}"
                )
        return len(self.releases)

    def assert_lives_end_before_the_next(self) -> None:
        """Assert that a member whose end is known ended, or was killed, and never acted after it was fenced."""
        fenced: dict[int, int] = {}
        for event in self.events():
            pid = int(event["pid"])
            assert pid not in fenced or event["event"] != "active", f"{event} after it was fenced"
            if event["event"] == "fenced":
                fenced[pid] = int(event["monotonic_ns"])

    def _watch_register(self) -> None:
        folder: Path = self.hosts.state.register
        while not self._is_over.wait(_POLL_S):
            for path in folder.glob(f"{VM}.*.json"):
                number = int(path.name.split(".")[1])
                if number not in self.records:
                    try:
                        self.records[number] = json.loads(path.read_text())
                    except FileNotFoundError:
                        continue
