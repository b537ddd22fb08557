"""What the screen shows and what is exported: the last figures, and the latest verdicts."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stealtime.capacity.advice import Advice, advise
from stealtime.capacity.figures import SubjectFigures
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
    waited_percent: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """What each virtual CPU waited in all, by guest and number, in percent of the window."""
    absent: Absent | None = None
    """Why there is nothing."""


@dataclass(frozen=True)
class Snapshot:
    """All that is shown, at one moment; it does not change."""

    uses: Sequence[Use]
    host: Advice
    guests: Mapping[tuple[int, int], Advice]
    """Of those that run; one that began since the last verdicts has none yet."""
    samples: int
    neighbours: Neighbours = field(default_factory=Neighbours)


class State:
    """Takes one use after the other.

    Args:
        rules: To judge by.
        window_samples: How many uses verdicts look back on.
        judge_every_samples: How often they are given.
        keep_figures: Whether verdicts keep what they were held against, and with it all uses of their time.
    """

    def __init__(
        self,
        rules: RuleBook,
        window_samples: int = WINDOW_SAMPLES,
        judge_every_samples: int = _JUDGE_EVERY_SAMPLES,
        *,
        keep_figures: bool = True,
    ) -> None:
        self._rules = rules
        self._keep_figures = keep_figures
        self._judge_every = judge_every_samples
        self._uses: deque[Use] = deque(maxlen=window_samples)
        self._samples = 0
        self._verdicts: tuple[Advice, dict[tuple[int, int], Advice]] | None = None
        self._neighbours = Neighbours()

    def take(self, use: Use) -> Snapshot:
        self._uses.append(use)
        self._samples += 1
        if self._verdicts is None or self._samples % self._judge_every == 0:
            self._judge()
        assert self._verdicts is not None  # noqa: S101 - for the type checker
        host, guests = self._verdicts
        return Snapshot(
            uses=tuple(self._uses),
            host=host,
            guests={key: one for key, one in guests.items() if key in use.guests},
            samples=self._samples,
            neighbours=self._neighbours,
        )

    def blame(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours

    def _judge(self) -> None:
        seen = list(self._uses)
        host, guests = judge(seen, self._rules)
        of_host, of_guests = advise(seen, host, guests)
        if not self._keep_figures:
            of_host, of_guests = _without_figures(of_host), [_without_figures(one) for one in of_guests]
        keyed = {one.judgement.guest.key: one for one in of_guests if one.judgement.guest is not None}
        self._verdicts = of_host, keyed


def _without_figures(advice: Advice) -> Advice:
    return replace(advice, judgement=replace(advice.judgement, figures=SubjectFigures(), outcomes=()))
