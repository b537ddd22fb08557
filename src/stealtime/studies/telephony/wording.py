"""The words of the study's tables and page."""

from collections.abc import Iterator, Sequence
from itertools import product

from stealtime.hosts.checkpoint_figures import interval_words
from stealtime.report import notation
from stealtime.report.answer import bare_ratio, times
from stealtime.report.catalogue.answer import same_but
from stealtime.report.repetitions import ratio_to
from stealtime.studies.telephony.calls.recommendation import JudgedCalls, Recommendation, recommend
from stealtime.studies.telephony.figures import TelephonyFigures
from stealtime.studies.telephony.parameters import ServerParameters
from stealtime.vocabulary.quantities import format_duration

_FAULTS = {"silent": ", silent", "planned": ", moved"}
_VICTIMS = {
    "standby": ", its standby",
    "front": ", a front",
    "all-primaries": ", all primaries",
    "signalling": ", signalling's host",
    "media": ", media's host",
}
"""What is lost, where that is not the host of one server."""
_ROLES = {"apart": ", media apart", "hosts": ", media on another host"}
TRANSPORT_WORDS = {"udp": "UDP", "tcp-one": "TCP one", "tcp-each": "TCP each"}
_SEVERAL = (
    "Two stages: silence is that of the users of the primary whose host died, the others are the users of all other "
    "primaries, before and after the fault. Late: acknowledged after 500 ms or more; over UDP a phone has sent again "
    "by then. Most: the largest share of the phones that one front has, and of the users that one primary has. Each "
    "acknowledged user is asked for by way of another front."
)
_STAGE_CALLS = (
    "Calls through two stages: callers are led to a front by the name server, and each phone registers by way of the "
    "other one. A call is that of the primary that relays it, which is the one of the user who is called. No voice: "
    "the longest silence of any caller or phone in calls of a primary whose host died, where it holds the fault."
)
_GENERATORS = (
    "What offered the load: SIPp's CPU is of one CPU, and what it waited for a CPU is of its time, both of the busiest "
    "SIPp; requests left within so long after their time of the plan. Datagrams are dropped at the phones' sockets, "
    "frames on the links between phones and server. Of a rate that was searched, it is what the last try saw."
)
_STATE = (
    "Users: so many were registered before the load, and are beside those who register in it. Sent for each, pages of "
    "each: of a checkpoint, what the link carried and what the guest had written since the one before."
)
_WEIGHT = (
    "Host weight: that of the CPU group of the host side (members, daemons, QEMU but for its vCPU threads), where 100 "
    "is as much as any other group or task of the usual priority has."
)
_APPLIANCES = (
    "Appliances: so many servers on one host, each in a guest of its own; a load of registrations is that of each, "
    "a rate that was searched that of all together, as are all CPU times and counts."
)
_BACKING = (
    "What the host that backs servers has to give is a part of the host side: CPU of one, and memory when the load was "
    "over, that of the guests and all else."
)
_COSTS = (
    "Costs are those of one server alone, fitted so that CPU times are sums of them, with their range over all fits "
    "that leave out a cell. A cell is predicted by the others' costs, several appliances by the load alone: predicted, "
    "measured (error). What a host bears uses up the virtual CPUs of its guests (vCPU) or all CPUs of the machine "
    "(CPUs); the range is that of the worst error of any cell that was held out."
)
_STANDBY = (
    "Its standby: the host that backs the server is lost, and the server runs on without protection. To alone: until "
    "the register has said that it is alone; in net all that it says is held until then. Unprotected for: from the "
    "fault until it had another standby with a whole copy. Host back to protected: the same from when there was a host "
    "for that; one that fell silent comes back later."
)
_HOSTS = (
    "Media on another host: signalling and media have a guest and a host each, and one more host backs both. "
    "Signalling's host, media's host: that host is lost alone; in other failovers both are at once. Where voice does "
    "not stop at the fault, the longest silence was at another time. Registrations' silence is the longest time "
    "between two acknowledgements that ends after the fault. Hosts in namespaces share the CPUs of this machine."
)
_FRONT = (
    "A front: its phones turn to the next target of their own SRV order (RFC 3263, section 4.3) where a request cannot "
    "be delivered, or gets no answer until timer F. A wait is that of one phone, from its first request until it was "
    "acknowledged. Silence is that of the phones of this front, the others are the phones of the other one."
)
VOICE_NOTE = (
    "Callers and phones both speak; a stream is the voice of one of them. Delay (one way), loss and MOS (ITU-T G.107) "
    "are of all streams, by the stamps of both ends, outside of the server. Packets are late if they come 60 ms after "
    "the fastest, as a phone's buffer has it."
)
_TRANSCODING = (
    "Transcoded: callers speak G.711 and phones G.722, and the server puts each into the other. Both say tones, by "
    "which the place of a packet in its stream is known; judged by their tone are packets in the middle of one whose "
    "predecessor came, too. New source numbers, numbered anew: how often a stream did not go on as it was, as of a "
    "coder that had begun anew. The E-model gives no MOS of it."
)
_NO_NET = (
    "In the mode no-net answers leave before the standby has what they tell of: registrations that were acknowledged "
    "can be lost. It is no protection of what phones were told."
)


def recommendations(cells: Sequence[TelephonyFigures]) -> list[Recommendation]:
    """Judge the loads of calls that were measured of the usual server; see :mod:`.calls.recommendation`."""
    return recommend(
        [
            JudgedCalls(cell.platform, cell.calls)
            for cell in cells
            if cell.calls is not None and ServerParameters.of(cell).is_usual and "victim" not in cell.parameters
        ]
    )


def conclusions(cells: Sequence[TelephonyFigures]) -> list[str]:
    """Say what the loads of calls speak for: a line for each of them, and one for each bar."""
    lines = []
    for one in recommendations(cells):
        lines.append(f"{one.title}: {one.text}")
        lines += [f"  {judgement.text}" for judgement in one.judgements]
    return lines


def names(cells: Sequence[TelephonyFigures]) -> tuple[str, list[str]]:
    """Name the rows of tables, whose column of names needs no head."""
    return "", [cell_words(cell) for cell in cells]


def cell_words(cell: TelephonyFigures) -> str:
    """Name a cell: where the server runs, how phones reach it, and the load."""
    return ", ".join(one for one in (server_words(cell), transport_words(cell), load_words(cell)) if one)


def server_words(cell: TelephonyFigures) -> str:
    """Say where the server runs, and how its guest is protected."""
    mode, *times_ns = (cell.parameters.get(name) for name in ("mode", "interval_ns", "min_interval_ns"))
    how = "" if mode in (None, "off") else f" {mode}"
    every = interval_words(*(one if isinstance(one, int) else None for one in times_ns))
    several = f", {primaries} primaries" if isinstance(primaries := cell.parameters.get("primaries"), int) else ""
    if isinstance(standbys := cell.parameters.get("standbys"), int):
        several += f" and {standbys} standbys"
    victim = _VICTIMS.get(str(cell.parameters.get("victim")), "")
    fault = _FAULTS.get(str(cell.parameters.get("fault")), "")
    timer_f_ns = cell.parameters.get("timer_f_ns")
    wait = f", timer F {format_duration(timer_f_ns)}" if isinstance(timer_f_ns, int) else ""
    apart = _ROLES.get(str(cell.parameters.get("roles")), "")
    return f"{cell.platform}{how}{every}{apart}{several}{_size_words(cell)}{victim}{fault}{wait}"


def _size_words(cell: TelephonyFigures) -> str:
    """Say of a server that is not the usual one how large it is, and how its host side is weighed."""
    names = ("appliances", "cpus", "registered", "host_weight")
    appliances, cpus, registered, weight = (cell.parameters.get(name) for name in names)
    words = [
        f"{appliances} appliances" if isinstance(appliances, int) else "",
        f"{cpus} vCPUs" if isinstance(cpus, int) else "",
        f"{registered:,} users" if isinstance(registered, int) else "",
        f"host weight {weight}" if isinstance(weight, int) else "",
    ]
    return "".join(f", {one}" for one in words if one)


def is_transcoded(cell: TelephonyFigures) -> bool:
    """Tell whether the server puts voice into another codec, and does not pass it on."""
    return cell.parameters.get("media", "relay") == "transcoding"


def is_over_udp(cell: TelephonyFigures) -> bool:
    return cell.parameters.get("transport", "udp") == "udp"


def transport_words(cell: TelephonyFigures) -> str:
    over = TRANSPORT_WORDS.get(str(cell.parameters.get("transport")), "")
    return ", ".join(filter(None, (over, authentication_words(cell))))


def authentication_words(cell: TelephonyFigures) -> str:
    return "with passwords" if cell.parameters.get("auth") else ""


def rated_words(cell: TelephonyFigures) -> str:
    """Name a server whose highest rate is told, and say if it bears more where nobody has seen it fail."""
    words = ", ".join(filter(None, (server_words(cell), authentication_words(cell))))
    return f"{words} at least" if cell.is_bounded is False else words


def load_words(cell: TelephonyFigures) -> str:
    """Say how much is asked of the server."""
    share, rate, users = (cell.parameters.get(name) for name in ("share", "rate_per_s", "users"))
    words = []
    if isinstance(streams := cell.parameters.get("streams"), int):
        words.append(f"{streams} streams{' transcoded' if is_transcoded(cell) else ''}")
    if isinstance(share, int | float):
        words.append(f"{100 * share:g} %")
    if isinstance(rate, int | float):
        words.append(f"{rate:g}/s")
    if isinstance(users, int):
        words.append(f"{users:,} phones")
    if isinstance(generators := cell.parameters.get("generators"), int):
        words.append(f"{generators} SIPps")
    return ", ".join(words)


def notes(cells: Sequence[TelephonyFigures]) -> list[str]:
    lines = []
    if any(str(cell.parameters.get("transport")).startswith("tcp") for cell in cells):
        lines.append(
            "TCP one: all phones, or all callers, over one connection. TCP each: each with a connection of its own. "
            "Phones that are called are all reached over one connection then."
        )
    if any("share" in cell.parameters for cell in cells):
        lines.append(
            "A load in per cent is a share of the registration rate of the unprotected server of the same platform "
            "over the same transport, which was searched first."
        )
    if any(cell.probe == "register" for cell in cells):
        lines.append(
            "CPU: of one CPU, while the load lasted, so that several can give more than 100 %. The server's is that of "
            "all vCPU threads of the guest together (natively of its processes), the host side's that of QEMU's other "
            "threads and of both hosts' replication; each: per acknowledged registration. Under TCG vCPU threads also "
            "translate."
        )
    if any(cell.parameters.get("auth") for cell in cells):
        lines.append(
            "With passwords: the server challenges each phone, which registers by a second request with its digest "
            "(RFC 3261, section 22). Times are from the first request to the 200."
        )
        lines += _costs_of_passwords(cells)
    if any(cell.figure("sent_late_p99_ns").p50 is not None for cell in cells):
        lines.append(_GENERATORS)
    if any("registered" in cell.parameters for cell in cells):
        lines.append(_STATE)
    if any(cell.cost is not None and cell.cost.parts for cell in cells):
        lines.append(_COSTS)
    if any("appliances" in cell.parameters for cell in cells):
        lines.append(_APPLIANCES)
    if any(cell.figure("standby_memory_bytes").p50 is not None for cell in cells):
        lines.append(_BACKING)
    if any("host_weight" in cell.parameters for cell in cells):
        lines.append(_WEIGHT)
    if any("primaries" in cell.parameters for cell in cells):
        lines.append(_SEVERAL)
    if any(cell.stage is not None for cell in cells):
        lines.append(_STAGE_CALLS)
    victims = {cell.parameters.get("victim") for cell in cells}
    lines += [words for victim, words in (("standby", _STANDBY), ("front", _FRONT)) if victim in victims]
    if any(cell.parameters.get("roles") == "hosts" for cell in cells):
        lines.append(_HOSTS)
    if any(cell.calls is not None or cell.stage is not None for cell in cells):
        lines.append(VOICE_NOTE)
    if any(is_transcoded(cell) for cell in cells):
        lines.append(_TRANSCODING)
        lines += _costs_of_transcoding(cells)
    if any(cell.parameters.get("mode") == "no-net" for cell in cells):
        lines.append(_NO_NET)
    return lines


def _costs_of_transcoding(cells: Sequence[TelephonyFigures]) -> Iterator[str]:
    """Say how much more CPU a stream takes of a server that transcodes it, where both were measured at one load."""
    name = "server_cpu_stream_percent"
    for own, base in product(cells, cells):
        if own.probe != "call" or not is_transcoded(own) or is_transcoded(base) or not same_but(own, base, "media"):
            continue
        each, without = (cell.figure(name).p50 for cell in (own, base))
        if each is None or without is None:
            continue
        yield (
            f"{cell_words(base)}: a stream that is transcoded takes {each:.2f} % of a CPU of the server instead of "
            f"{without:.2f} %: {_more(base, own, name)}."
        )


def _more(base: TelephonyFigures, own: TelephonyFigures, name: str) -> str:
    """Say how many times as much a figure is in a cell as in another one of the same run, or why that is not judged."""
    ratio, because = ratio_to(base.figure(name), own.figure(name), same_session=True)
    if ratio is None:
        return f"by how much is not judged, because {because}"
    if ratio.low <= 1 <= ratio.high:
        return f"no difference is shown (ratio {bare_ratio(ratio.low)} to {bare_ratio(ratio.high)})"
    return f"{times(ratio.value)} as much ({bare_ratio(ratio.low)} to {bare_ratio(ratio.high)})"


def _costs_of_passwords(cells: Sequence[TelephonyFigures]) -> Iterator[str]:
    """Say how much more CPU a registration with a password takes of a server, where both were measured at one load."""
    name = "server_cpu_each_ns"
    for own, base in product(cells, cells):
        if not (own.probe == "register" and own.parameters.get("auth") and not base.parameters.get("auth")):
            continue
        each, without = (cell.figure(name).p50 for cell in (own, base))
        if not same_but(own, base, "auth") or each is None or without is None:
            continue
        yield (
            f"{cell_words(base)}: a registration with a password takes {notation.duration(each, 3)} of the server's "
            f"CPU instead of {notation.duration(without, 3)}: {_more(base, own, name)}."
        )
