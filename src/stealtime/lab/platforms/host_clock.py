"""The rate of the host's time-stamp counter, for guests whose counter it is.

Under TCG a guest reads the host's counter, but has to find its rate by itself, against emulated timers on a busy host.
Linux first takes a quick guess (``tsc-early``) and refines it a second later: clocks that began in the first second
are then wrong by up to a few thousand ppm. Told the rate (``tsc_early_khz=``, Linux 5.10), it need not guess.
"""

import subprocess
from pathlib import Path

from pydantic import BaseModel, ValidationError

from stealtime.lab.image.cache import cache_folder, write_atomically

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_LIMIT_S = 10.0


class HostClock(BaseModel):
    """What ``stealtime-agent clock`` prints."""

    schema_version: int
    tsc_hz: float
    tsc_hz_source: str


def host_tsc_khz(agent: Path) -> int | None:
    """Give the rate in kHz, measured once a boot of the host; None if the agent cannot tell."""
    remembered = remembered_rate()
    try:
        clock = HostClock.model_validate_json(remembered.read_bytes())
    except (OSError, ValidationError):
        measured = _measure(agent)
        if measured is None:
            return None
        clock = measured
        write_atomically(remembered, clock.model_dump_json())
    return round(clock.tsc_hz / 1000)


def remembered_rate() -> Path:
    """Give the file that the rate is kept in for this boot of the host."""
    return cache_folder() / "host-clock" / f"{_BOOT_ID.read_text().strip()}.json"


def _measure(agent: Path) -> HostClock | None:
    try:
        finished = subprocess.run([agent, "clock"], capture_output=True, check=True, timeout=_LIMIT_S)
        return HostClock.model_validate_json(finished.stdout)
    except (OSError, subprocess.SubprocessError, ValidationError):
        return None
