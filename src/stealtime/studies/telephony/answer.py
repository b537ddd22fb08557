"""What the study answers of a run: what phones see when the server's host dies, and what protection costs them."""

from collections.abc import Sequence

from stealtime.hosts.host import FAULT_WORDS
from stealtime.report import notation
from stealtime.report.answer import LINES_MAX, Answer, Quotes
from stealtime.report.answer_trust import why_nothing
from stealtime.report.catalogue.answer import answered, count_words, figure_words, same_but
from stealtime.report.repetitions import FigureOfRepetitions
from stealtime.report.summary import RunSummary
from stealtime.studies.telephony import wording
from stealtime.studies.telephony.figures import TelephonyFigures

STUDY = "telephony"
_FAILOVERS = (
    "call-failover",
    "register-failover",
    "session-failover",
    "two-stage-failover",
    "two-stage-call-failover",
)
_VICTIMS = ("primary", "media", "signalling", "all-primaries", "standby", "front")
"""What is lost, in the order in which it is told."""
_SIDES = ("media", "signalling")
"""The host of one of them alone."""
_NO_GUEST = ("standby", "front")
"""With these no guest is lost."""
_LOST_WORDS = {
    "all-primaries": "Hosts of all primaries lost at once",
    "standby": "Host of the standby lost",
    "signalling": "Host of signalling lost",
    "media": "Host of media lost",
    "front": "A front lost",
}
"""Where that is not the host of one server."""
_MODES = ("net+bypass", "net", "net+no-net", "replicated", "no-net")
"""How a server is protected, the one first that is to keep most of what phones were told."""
_SIZES = ("cpus", "registered", "host_weight")
"""What else tells one server from another."""
_RATES = {"registration-rate": ("rate_per_s", "registrations"), "session-rate": ("sessions_per_s", "sessions")}
_LEADING = {
    "call-failover": ("gap_ns",),
    "two-stage-call-failover": ("gap_ns",),
    "register-failover": ("silence_ns",),
    "session-failover": ("silence_ns",),
    "two-stage-failover": ("silence_ns",),
    "register": ("median_ns",),
    "registration-rate": ("rate_per_s",),
    "session-rate": ("sessions_per_s",),
    "call": ("delay_median_ns",),
}
"""The figures that decide whether the sentence may be trusted, by the probe that it quotes."""


def answer_of(summary: RunSummary) -> Answer:
    """Answer with the failovers of one server and what it costs its phones meanwhile; else with what servers bear."""
    cells = summary.cells_of(TelephonyFigures)
    valid = [cell for cell in cells if cell.valid and cell.figures]
    if not valid:
        return Answer.not_judged(STUDY, *why_nothing(summary, cells))
    quotes = Quotes()
    servers = _servers(valid)
    told, quoted = [_died(quotes, own) for own in servers], list(servers[0]) if servers else []
    if servers and (pair := _waiting(servers[0][0], valid)) is not None:
        told[0] += f"; {_longer(quotes, *pair)}"
        quoted += pair
    others = [*_costs(quotes, valid, is_told=bool(servers)), *_conclusions(valid)]
    if not told:
        quoted = [_first(valid)]
    told = [*told[: LINES_MAX - 1], *others, *told[LINES_MAX - 1 :]]
    figures = [one for cell in quoted for one in _figures(cell)]
    return answered(STUDY, summary, told, quotes=quotes, cells=(quoted, cells), figures=figures)


def _servers(cells: Sequence[TelephonyFigures]) -> list[list[TelephonyFigures]]:
    """Give the cells of failovers by server: first the server with most kinds of them, then in the order of modes.

    Those in which something else than a server's host is lost come last.
    """
    by_server: dict[tuple[object, ...], list[TelephonyFigures]] = {}
    for cell in sorted((one for one in cells if one.probe in _FAILOVERS), key=lambda one: _FAILOVERS.index(one.probe)):
        told = ("mode", "interval_ns", "min_interval_ns", "fault", "victim", "timer_f_ns", "standbys", "media", *_SIZES)
        names = (cell.parameters.get(name) for name in told)
        by_server.setdefault((cell.platform, *names, cell.parameters.get("roles", "together")), []).append(cell)

    def rank(own: list[TelephonyFigures]) -> tuple[int, int, int]:
        mode, victim = str(own[0].parameters.get("mode")), _victim(own[0])
        return (
            -len({cell.probe for cell in own}),
            _VICTIMS.index(victim) if victim in _VICTIMS else len(_VICTIMS),
            _MODES.index(mode) if mode in _MODES else len(_MODES),
        )

    return [_one_of_each(own) for own in sorted(by_server.values(), key=rank)]


def _one_of_each(cells: Sequence[TelephonyFigures]) -> list[TelephonyFigures]:
    """Of each kind of failover take the one that lost most, then one over UDP, then what was silent for longest."""
    worst: dict[str, TelephonyFigures] = {}
    for cell in cells:
        if cell.probe not in worst or _loss(cell) > _loss(worst[cell.probe]):
            worst[cell.probe] = cell
    return list(worst.values())


def _loss(cell: TelephonyFigures) -> tuple[int, bool, float]:
    if cell.stage is not None:
        return (cell.count("registrations_lost") or 0) + cell.stage.cut, True, cell.figure("gap_ns").p50 or 0.0
    lost = (cell.count("lost") or 0) + (cell.count("half_open") or 0) + (cell.count("registrations_lost") or 0)
    if cell.calls is not None:
        lost += cell.calls.cut
    return lost, wording.is_over_udp(cell), cell.figure(_LEADING[cell.probe][0]).p50 or 0.0


def _died(quotes: Quotes, cells: Sequence[TelephonyFigures]) -> str:
    """Say what calls, registrations and phones see when a server's host dies."""
    by_probe = {cell.probe: cell for cell in cells}
    parts = []
    calls, staged = by_probe.get("call-failover"), by_probe.get("two-stage-call-failover")
    registered = by_probe.get("register-failover") or by_probe.get("two-stage-failover")
    if calls is not None:
        over = "" if wording.is_over_udp(calls) else f" over {wording.transport_words(calls)}"
        over += " whose voice is transcoded" if wording.is_transcoded(calls) else ""
        kept = figure_words(quotes, calls, "calls_kept_percent", with_interval=False)
        parts.append(f"{kept} of calls{over} kept")
    if registered is not None:
        lost, of = (count_words(quotes, registered, name) for name in ("lost", "acknowledged"))
        parts.append(f"{lost} of {of} registrations lost")
    elif (called := calls or staged) is not None:
        lost, of = (count_words(quotes, called, f"registrations_{name}") for name in ("lost", "acknowledged"))
        parts.append(f"{lost} of {of} registrations lost")
    if staged is not None:
        parts += _through_stages(quotes, staged)
    sessions = by_probe.get("session-failover")
    if sessions is not None:
        half_open, begun = (count_words(quotes, sessions, name) for name in ("half_open", "begun"))
        parts.append(f"{half_open} of {begun} sessions left half open")
    if calls is not None and calls.figure("gap_ns").p50 is not None:
        parts.append(f"phones heard nothing for {figure_words(quotes, calls, 'gap_ns')}")
    elif calls is not None and _victim(calls) == "signalling":
        parts.append(f"voice went on (its longest silence was {figure_words(quotes, calls, 'longest_silence_ns')})")
    if calls is not None and _victim(calls) in _SIDES and calls.figure("registrations_silence_ns").p50 is not None:
        parts.append(f"no phone was answered for {figure_words(quotes, calls, 'registrations_silence_ns')}")
    if registered is not None:
        parts.append(_unanswered(quotes, registered))
    elif sessions is not None and sessions.figure("silence_ns").p50 is not None:
        parts.append(f"no caller was answered for {figure_words(quotes, sessions, 'silence_ns')}")
    if (without := registered or sessions or calls) is not None:
        parts += _went_on(quotes, without)
    return f"{_lost(cells[0])} ({wording.server_words(cells[0])}): {', '.join(parts)}"


def _through_stages(quotes: Quotes, cell: TelephonyFigures) -> list[str]:
    """Say what became of calls through two stages: of users of what was lost, and of the others."""
    kept, of = (count_words(quotes, cell, name) for name in ("kept", "calls"))
    whose = "all users" if _victim(cell) == "all-primaries" else "its users"
    parts = [f"{kept} of {of} calls of {whose} kept"]
    if cell.count("others_calls"):
        kept, of = (count_words(quotes, cell, f"others_{name}") for name in ("kept", "calls"))
        parts.append(f"{kept} of {of} of the others")
    if cell.figure("gap_ns").p50 is not None:
        parts.append(f"{whose} heard nothing for {figure_words(quotes, cell, 'gap_ns')}")
    if cell.figure("others_voice_silence_ns").p50 is not None:
        parts.append(f"the others for {figure_words(quotes, cell, 'others_voice_silence_ns')} at most")
    return parts


def _victim(cell: TelephonyFigures) -> str:
    return str(cell.parameters.get("victim", "primary"))


def _lost(cell: TelephonyFigures) -> str:
    """Say what was lost, and how a host was."""
    if (words := _LOST_WORDS.get(_victim(cell))) is not None:
        return words
    fault = cell.parameters.get("fault", "killed")
    return next((words for kind, words in FAULT_WORDS.items() if kind == fault), str(fault))


def _went_on(quotes: Quotes, cell: TelephonyFigures) -> list[str]:
    """Say how it went on without what was lost, where no guest had to run again."""
    if _victim(cell) == "standby":
        return [f"the server was not protected for {figure_words(quotes, cell, 'unprotected_ns')}"]
    if _victim(cell) == "front":
        turned, of = (count_words(quotes, cell, name) for name in ("turned", "phones_of_front"))
        longest = f", after {figure_words(quotes, cell, 'longest_wait_ns')} at most" if cell.count("turned") else ""
        return [f"{turned} of the {of} phones of this front turned to the other one{longest}"]
    return []


def _unanswered(quotes: Quotes, cell: TelephonyFigures) -> str:
    phone = "no phone of it" if _victim(cell) == "front" else "no phone"
    if cell.figure("silence_ns").p50 is None:
        if not cell.counts["unanswered"]:
            before = "the fault" if _victim(cell) in _NO_GUEST else "the guest ran again"
            return f"all phones had registered before {before}"
        return f"{phone} was answered any more"
    return f"{phone} was answered for {figure_words(quotes, cell, 'silence_ns')}"


def _waiting(
    server: TelephonyFigures, cells: Sequence[TelephonyFigures]
) -> tuple[TelephonyFigures, TelephonyFigures] | None:
    """Give the registrations of a protected server and those of the same unprotected at the same load, if measured."""
    own = [cell for cell in cells if cell.probe == "register" and cell.platform == server.platform]
    how = ("mode", "interval_ns", "min_interval_ns")
    for cell in own:
        if all(cell.parameters.get(name) == server.parameters.get(name) for name in (*how, *_SIZES)):
            for base in own:
                if base.parameters.get("mode") == "off" and same_but(base, cell, *how):
                    return cell, base
    return None


def _longer(quotes: Quotes, cell: TelephonyFigures, base: TelephonyFigures) -> str:
    """Say how much longer a registration waits; the interval is that of the protected server's."""
    own, other = cell.figure("median_ns").p50, base.figure("median_ns").p50
    if own is None or other is None:
        return "how long a registration waits is not known"
    longer = own - other
    if longer == 0:
        return f"a registration waits no longer ({figure_words(quotes, cell, 'median_ns')})"
    words = quotes.figure(cell, "waits_longer_ns", longer, notation.duration(abs(longer), 3))
    both = f"{figure_words(quotes, cell, 'median_ns')} instead of {figure_words(quotes, base, 'median_ns')}"
    return f"a registration waits {words} {'longer' if longer > 0 else 'less'}: {both}"


def _costs(quotes: Quotes, cells: Sequence[TelephonyFigures], *, is_told: bool) -> list[str]:
    """Say what servers bear, what a registration takes and how calls sound; the latter where no failover is told."""
    told = []
    for probe, (name, what) in _RATES.items():
        own = [cell for cell in cells if cell.probe == probe and wording.is_over_udp(cell)]
        if own:
            each = (f"{wording.rated_words(cell)} {figure_words(quotes, cell, name)}" for cell in own)
            told.append(f"the most {what} a second without a failure: {', '.join(each)}")
    if is_told:
        return told
    guests = [cell for cell in cells if cell.probe == "register" and cell.parameters.get("mode") != "off"]
    for cell in guests:
        if (pair := _waiting(cell, cells)) is not None:
            told.append(f"{wording.server_words(cell)}: {_longer(quotes, *pair)}")
            break
    else:
        told += [
            f"{wording.cell_words(cell)}: a registration takes {figure_words(quotes, cell, 'median_ns')}"
            for cell in cells
            if cell.probe == "register" and cell.figure("median_ns").p50 is not None
        ]
    told += [
        f"{wording.cell_words(cell)}: voice comes after {figure_words(quotes, cell, 'delay_median_ns')}, "
        f"{figure_words(quotes, cell, 'loss_percent')} of it is lost{_mos_words(quotes, cell)}"
        for cell in cells
        if cell.probe == "call" and cell.figure("delay_median_ns").p50 is not None
    ]
    return told or ["nothing was measured that has a figure"]


def _mos_words(quotes: Quotes, cell: TelephonyFigures) -> str:
    """Say how it sounds, where that is known."""
    return "" if cell.figure("mos").p50 is None else f", MOS {figure_words(quotes, cell, 'mos')}"


def _conclusions(cells: Sequence[TelephonyFigures]) -> list[str]:
    return [f"{one.title}: {one.text}" for one in wording.recommendations(cells)]


def _first(cells: Sequence[TelephonyFigures]) -> TelephonyFigures:
    order = (*_RATES, "register", "call")
    return min(cells, key=lambda cell: order.index(cell.probe) if cell.probe in order else len(order))


def _figures(cell: TelephonyFigures) -> list[FigureOfRepetitions]:
    return [cell.figure(name) for name in _LEADING[cell.probe] if cell.figure(name).of_repetitions]
