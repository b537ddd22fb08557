"""What this user may do: tasks that work without root, and those that do not, with the reason and what to do.

Each is decided by trying, or by asking what would refuse the task: who is told "works" is not refused later.
"""

from collections.abc import Callable
from dataclasses import dataclass

from stealtime.capacity.collector import hidden_processes
from stealtime.doctor import platforms, scheduling, tracing
from stealtime.doctor.attempts import Attempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Finding, Level
from stealtime.hosts.laboratory import refuse_without_root
from stealtime.lab.platforms.realtime_limit import why_not_liftable
from stealtime.vocabulary.errors import AS_ROOT_HINT, WHAT_WORKS_HINT, StealtimeError
from stealtime.vocabulary.readings import Model

_AS_ROOT = AS_ROOT_HINT.removesuffix(WHAT_WORKS_HINT)
_LIMIT_FILE = "/proc/sys/kernel/sched_rt_runtime_us"


class Right(Model):
    """A task, and whether this user may do it."""

    id: str
    """A fixed name for scripts: ``causes``."""
    task: str
    works: bool
    because: str
    """What it needs and has, or what refuses it."""
    fix: str | None
    """What would let it work; None if it works."""


@dataclass(frozen=True)
class _Refusal:
    because: str
    fix: str


@dataclass(frozen=True)
class _Task:
    id: str
    name: str
    needs: str
    refusal: Callable[[Files, Attempts], _Refusal | None] = lambda _, __: None


def examine_rights(files: Files, attempts: Attempts) -> list[Right]:
    """Tell of each task whether this user may do it; tries what only trying can tell, in well under a second."""
    rights = []
    for task in _TASKS:
        refusal = task.refusal(files, attempts)
        because, fix = (task.needs, None) if refusal is None else (refusal.because, refusal.fix)
        rights.append(Right(id=task.id, task=task.name, works=refusal is None, because=because, fix=fix))
    return rights


def _refused_by(finding: Finding) -> _Refusal | None:
    return None if finding.level is Level.OK else _Refusal(finding.text, finding.fix or _AS_ROOT)


def _kvm(files: Files, _: Attempts) -> _Refusal | None:
    return _refused_by(platforms.kvm_device(files))


def _realtime(files: Files, attempts: Attempts) -> _Refusal | None:
    return _refused_by(scheduling.sched_fifo(files, attempts))


def _lift(files: Files, _: Attempts) -> _Refusal | None:
    reason = why_not_liftable(files.path(_LIMIT_FILE))
    return None if reason is None else _Refusal(reason, _AS_ROOT)


def _shares(files: Files, _: Attempts) -> _Refusal | None:
    return _refused_by(tracing.cgroups(files))


def _causes(_: Files, attempts: Attempts) -> _Refusal | None:
    tried = attempts.kernel_files("tracefs", ["trace_clock"])
    return None if tried.succeeded else _Refusal(f"tracefs cannot be read: {tried.text}", tried.hint or _AS_ROOT)


def _guests_of_others(files: Files, _: Attempts) -> _Refusal | None:
    hidden = hidden_processes(files.path("/proc"))
    return None if hidden is None else _Refusal(hidden, _AS_ROOT)


def _laboratory(files: Files, _: Attempts) -> _Refusal | None:
    try:
        refuse_without_root(files.path("/proc/self/status"))
    except StealtimeError as error:
        return _Refusal(error.message, (error.hint or _AS_ROOT).removesuffix(WHAT_WORKS_HINT))
    return None


_TASKS = (
    _Task("runs", "ls, show, report, compare, query, export, sched", "they read files and compute"),
    _Task("guests", "run: guests of uml and qemu-tcg, any machine over ssh", "each is an ordinary process"),
    _Task("kvm", "run: guests of qemu-kvm", "/dev/kvm can be opened; whether a guest boots is told above", _kvm),
    _Task("realtime", "run: natively, with real-time priority", "SCHED_FIFO was granted", _realtime),
    _Task("lift", "run --lift-rt-throttling", f"{_LIMIT_FILE} may be written", _lift),
    _Task("shares", "run: scenarios with shares and quotas", "CPU groups can be made", _shares),
    _Task("causes", "run --tracing on, watch: who took the CPU", "the kernel's trace can be read", _causes),
    _Task("capacity", "advise, watch: this host and its guests", "/proc shows all processes", _guests_of_others),
    _Task("blackout", "blackout, and the agent's tools beside it", "they open sockets"),
    _Task("protect", "protect, and the studies of protection and telephony", "networks can be made", _laboratory),
)
