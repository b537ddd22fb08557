"""What the screen and the metrics show: the last minute of figures, totals since the start, the latest verdicts."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stealtime.capacity.advice import Advice, advise
from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.guest import Guest
from stealtime.capacity.judgement import judge
from stealtime.capacity.rules import RuleBook
from stealtime.capacity.use import Use
from stealtime.vocabulary.readings import Absent

WINDOW_SAMPLES = 60
"""What verdicts and sparklines look back on."""
_JUDGE_EVERY_SAMPLES = 10
"""A verdict on a minute changes slowly, and giving one on a hundred guests costs some ms."""


@dataclass(frozen=True)
class Blame:
    """Who took the CPU for which a virtual CPU waited, in the last window of the trace."""

    guest: str
    vcpu: int
    neighbour: str
    percent: float
    """Of the window."""
    tid: int | None = None
    """Of the neighbour, where it is no guest."""


@dataclass(frozen=True)
class Neighbours:
    """What the host's trace told."""

    blames: tuple[Blame, ...] = ()
    window_s: float = 0.0
    absent: Absent | None = None
    """Why there is nothing."""


@dataclass
class Totals:
    """What one virtual CPU has used since the watching began."""

    run_s: float = 0.0
    wait_s: float = 0.0
    dispatches: float = 0.0


@dataclass(frozen=True)
class Snapshot:
    """All that is shown, at one moment; it does not change."""

    uses: Sequence[Use]
    host: Advice
    guests: Mapping[tuple[int, int], Advice]
    samples: int
    totals: Mapping[tuple[Guest, int], tuple[float, float, float]]
    """Seconds run, seconds waited, dispatches, by guest and virtual CPU."""
    neighbours: Neighbours = field(default_factory=Neighbours)
    neighbour_wait_s: Mapping[tuple[str, int, str], float] = field(default_factory=dict)
    """Since the watching began, within the windows of the trace: by guest, virtual CPU and neighbour."""


class State:
    """Takes one use after the other."""

    def __init__(self, rules: RuleBook) -> None:
        self._rules = rules
        self._uses: deque[Use] = deque(maxlen=WINDOW_SAMPLES)
        self._samples = 0
        self._totals: dict[tuple[Guest, int], Totals] = {}
        self._verdicts: tuple[Advice, dict[tuple[int, int], Advice]] | None = None
        self._neighbours = Neighbours()
        self._neighbour_wait_s: dict[tuple[str, int, str], float] = {}

    def take(self, use: Use) -> Snapshot:
        known = self._uses[-1].guests.keys() if self._uses else set()
        self._uses.append(use)
        self._samples += 1
        self._add(use)
        if self._verdicts is None or self._samples % _JUDGE_EVERY_SAMPLES == 0 or known != use.guests.keys():
            self._judge()
        assert self._verdicts is not None  # noqa: S101 - for the type checker
        host, guests = self._verdicts
        return Snapshot(
            uses=tuple(self._uses),
            host=host,
            guests=guests,
            samples=self._samples,
            totals={key: (one.run_s, one.wait_s, one.dispatches) for key, one in self._totals.items()},
            neighbours=self._neighbours,
            neighbour_wait_s=dict(self._neighbour_wait_s),
        )

    def blame(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        for one in neighbours.blames:
            key = (one.guest, one.vcpu, one.neighbour)
            self._neighbour_wait_s[key] = self._neighbour_wait_s.get(key, 0.0) + one.percent / 100 * neighbours.window_s

    def _add(self, use: Use) -> None:
        running = {one.guest for one in use.guests.values()}
        for key in [key for key in self._totals if key[0] not in running]:
            del self._totals[key]
        for one in use.guests.values():
            if one.unreadable is not None:
                continue
            for number, vcpu in one.vcpus.items():
                total = self._totals.setdefault((one.guest, number), Totals())
                total.run_s += vcpu.run_percent / 100 * use.elapsed_s
                # What its quota took is told apart (throttled_s): it is no wait for the host.
                wait_percent = net_wait_percent(one, vcpu)
                total.wait_s += 0.0 if isinstance(wait_percent, Absent) else wait_percent / 100 * use.elapsed_s
                total.dispatches += vcpu.dispatches_per_s * use.elapsed_s

    def _judge(self) -> None:
        seen = list(self._uses)
        host, guests = judge(seen, self._rules)
        of_host, of_guests = advise(seen, host, guests)
        keyed = {one.judgement.guest.key: one for one in of_guests if one.judgement.guest is not None}
        self._verdicts = of_host, keyed
