"""Phones that turn to the next front, started where the phones are: what came of each."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from stealtime.hosts.client import Client
from stealtime.studies.telephony.registrations import turning_phones
from stealtime.studies.telephony.registrations.turning_phones import PhoneDone, PhonesOrder, parse_done
from stealtime.vocabulary.errors import StealtimeError

_BEGINS_WITHIN_S = 20.0
_SAID_BYTES = 500


@dataclass
class TurningPhones:
    """Phones that register or did."""

    process: psutil.Popen
    folder: Path
    limit_s: float

    def has_answer(self) -> bool:
        """Tell whether one was acknowledged."""
        return any(_answered(one) for one in self._so_far())

    def wait(self) -> list[PhoneDone]:
        """Wait until all are done; give what came of each.

        Raises:
            StealtimeError: They do not end in time, or fail.
        """
        try:
            code = self.process.wait(timeout=self.limit_s)
        except psutil.TimeoutExpired:
            self.end()
            raise StealtimeError(f"phones were not done within {self.limit_s:g} s") from None
        if code != 0:
            raise StealtimeError(f"the program of phones ended with {code}: {self.log_tail()}")
        return self._so_far()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def log_tail(self) -> str:
        said = (self.folder / "printed.log").read_text("utf-8", "replace").strip()
        return said[-_SAID_BYTES:] or "it said nothing"

    def _so_far(self) -> list[PhoneDone]:
        try:
            text = (self.folder / "done.jsonl").read_text()
        except FileNotFoundError:
            return []
        # The last line may not be whole yet.
        return [parse_done(line) for line in text[: text.rfind("\n") + 1].splitlines()]


@dataclass(frozen=True)
class Turned:
    """What came of phones."""

    done: Sequence[PhoneDone]

    @property
    def sent_ns(self) -> dict[str, int]:
        """By user: when the first copy of its first request was sent."""
        return {one.user: one.attempts[0].sent_ns for one in self.done}

    @property
    def answered_ns(self) -> dict[str, int]:
        """By user: when it was acknowledged, by whichever front."""
        return {one.user: one.attempts[-1].ended_ns for one in self.done if _answered(one)}

    @property
    def answered_by(self) -> Mapping[str, str]:
        """By user: the address of the front that acknowledged it."""
        return {one.user: one.attempts[-1].address for one in self.done if _answered(one)}

    def turned_ns(self, address: str) -> dict[str, int]:
        """Give how long phones of a front waited that another one has acknowledged, from their first request on."""
        return {
            one.user: one.attempts[-1].ended_ns - one.attempts[0].sent_ns
            for one in self.done
            if one.attempts[0].address == address and _answered(one) and one.attempts[-1].address != address
        }

    def count(self, address: str, outcome: turning_phones.Outcome) -> int:
        """Count the requests to a front that ended in a way."""
        return sum(
            (attempt.address, attempt.outcome) == (address, outcome) for one in self.done for attempt in one.attempts
        )

    @property
    def sent_again(self) -> int:
        """Copies of requests that were sent after the first one, over UDP."""
        return sum(attempt.sent_again for one in self.done for attempt in one.attempts)


def start_phones(client: Client, order: PhonesOrder, folder: Path) -> TurningPhones:
    """Have phones begin to register, with a folder for their files, which is made; does not wait."""
    folder.mkdir(parents=True)
    (folder / "order.json").write_text(json.dumps(asdict(order)))
    argv = [sys.executable, "-m", turning_phones.__name__, str(folder / "order.json"), str(folder / "done.jsonl")]
    with (folder / "printed.log").open("wb") as printed:
        process = client.start(argv, stdout=printed, stderr=subprocess.STDOUT)
    last_ns = max(one.after_ns for one in order.phones)
    most = max(len(one.targets) for one in order.phones)
    return TurningPhones(process, folder, _BEGINS_WITHIN_S + (last_ns + most * order.timer_f_ns) / 1e9)


def _answered(one: PhoneDone) -> bool:
    return one.attempts[-1].outcome == "answered"
