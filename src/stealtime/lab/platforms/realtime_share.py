"""Real-time threads in a CPU group, where the kernel has real-time groups (RT_GROUP_SCHED, cgroup v1 only).

There a new group's ``cpu.rt_runtime_us`` is 0 and SCHED_FIFO is refused in it; and a group's fraction of the CPU counts
against that of the group above. A quota binds ordinary threads only, so that ``rt_runtime_us`` is also the one way to
bind real-time ones. The kernel heeds it as long as RT throttling is not lifted (``sched_rt_runtime_us`` of -1).
"""

from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from stealtime.lab.platforms.share import Share
from stealtime.vocabulary.findings import Finding

RUNTIME_FILE, PERIOD_FILE = "cpu.rt_runtime_us", "cpu.rt_period_us"

_SLACK = Fraction(1, 500)
"""Each group above gets this much more: the kernel compares fractions of 20 bits, and a group that is exactly as wide
as the one in it would be throttled together with it."""


def allow_realtime(root: Path, group: Path, share: Share) -> list[Finding]:
    """Give a group as much real-time running time as its quota says, or all there is without a quota.

    Args:
        root: Of the hierarchy.
        group: Two levels below ``root``'s folder of ours: ``root/stealtime/<mark>/<name>``.
        share: Of the group.

    Returns:
        What a reader must know: that real-time threads are not bound, or not allowed.
    """
    if not (group / RUNTIME_FILE).exists():
        return [] if share.quota_us is None else [quota_not_binding("this kernel has no real-time groups")]
    run, ours = group.parent, group.parent.parent
    try:
        if _fraction(ours) == 0:
            _give(ours, _fraction(root), _microseconds(root / PERIOD_FILE))
        others = sum((_fraction(other) for other in _groups(run) if other != group), Fraction(0))
        elsewhere = sum((_fraction(other) for other in _groups(ours) if other != run), Fraction(0))
        left = _fraction(ours) - elsewhere - others - 2 * _SLACK
        quota = Fraction(1) if share.quota_us is None else Fraction(share.quota_us, share.period_us)
        wanted = min(quota, left)
        if wanted <= 0:
            return [_not_allowed(f"other groups have all of the {float(_fraction(ours)):.0%} that there is")]
        _give(run, others + wanted + _SLACK, _microseconds(run / PERIOD_FILE))
        _give(group, wanted, share.period_us if share.quota_us is not None else _microseconds(group / PERIOD_FILE))
    except OSError as error:
        return [_not_allowed(f"the kernel refuses with {error.strerror!r}")]
    if share.quota_us is not None and wanted < min(quota, Fraction(1)):
        return [
            Finding(
                code="realtime_share_smaller",
                level="limits",
                text=f"real-time threads get {float(wanted):.1%} of each CPU instead of {float(quota):.0%}: "
                "the kernel has no more to give",
                hint=f"see {RUNTIME_FILE} of the other groups below {root}",
            )
        ]
    return []


def give_realtime_back(group: Path) -> None:
    """Take a group's real-time running time away, if it has any and nobody in it needs it."""
    file = group / RUNTIME_FILE
    with suppress(OSError):
        if file.exists() and _microseconds(file) > 0:
            file.write_text("0")


def _fraction(group: Path) -> Fraction:
    return Fraction(max(0, _microseconds(group / RUNTIME_FILE)), _microseconds(group / PERIOD_FILE))


def _give(group: Path, fraction: Fraction, period_us: int) -> None:
    # The kernel checks after each write: a shorter period with the old running time could be more than there is.
    if _microseconds(group / PERIOD_FILE) != period_us:
        (group / RUNTIME_FILE).write_text("0")
        (group / PERIOD_FILE).write_text(str(period_us))
    (group / RUNTIME_FILE).write_text(str(int(fraction * period_us)))


def _microseconds(file: Path) -> int:
    return int(file.read_text())


def _groups(folder: Path) -> list[Path]:
    return [entry for entry in folder.iterdir() if entry.is_dir()]


def quota_not_binding(why: str) -> Finding:
    return Finding(
        code="realtime_not_bound",
        level="limits",
        text=f"the quota does not bind real-time threads: {why}",
        hint="natively, a scenario with priority = 0 is bound",
    )


def _not_allowed(why: str) -> Finding:
    return Finding(
        code="realtime_refused",
        level="limits",
        text=f"real-time threads are refused in the machine's CPU group: {why}",
        hint="let other groups use less cpu.rt_runtime_us, or use a scenario without a share",
    )
