"""A sweep over streams ends where the server bears no more: what was lost at fewer streams is told instead."""

from dataclasses import dataclass, field

from stealtime.report import notation
from stealtime.studies.telephony.calls.recommendation import rule
from stealtime.studies.telephony.calls.results import Calls
from stealtime.studies.telephony.loads import CallParameters
from stealtime.vocabulary.errors import StealtimeError


@dataclass
class Sweep:
    """What servers of one boot were seen not to bear, each by the parameters of its cell but for the load."""

    _lost: dict[CallParameters, tuple[int, float]] = field(default_factory=dict)
    """The fewest streams of which too much was lost, and what share of their packets that was."""

    def refuse(self, wanted: CallParameters) -> None:
        """Refuse more streams than the server was seen not to bear, where the cell asks for that.

        Raises:
            StealtimeError: It did not bear fewer.
        """
        lost = self._lost.get(_server(wanted))
        if wanted.while_borne and lost is not None and wanted.streams > lost[0]:
            streams, share = lost
            raise StealtimeError(
                f"{wanted.streams} streams were not tried: of {streams} this server lost {notation.percent(share)} of "
                f"the voice, {notation.percent(rule().voice_lost_share_max)} are the most that it may",
                hint="to try them all the same, leave out `while_borne`",
            )

    def note(self, wanted: CallParameters, found: Calls) -> None:
        """Note what came of a load; one that is borne now is no limit any more."""
        server, voice = _server(wanted), found.voice
        fewest = self._lost.get(server)
        if not rule().is_borne(voice.lost, voice.sent):
            if fewest is None or wanted.streams <= fewest[0]:
                self._lost[server] = wanted.streams, voice.lost_share
        elif fewest is not None and wanted.streams >= fewest[0]:
            del self._lost[server]


def _server(wanted: CallParameters) -> CallParameters:
    return wanted.model_copy(update={"streams": 0, "while_borne": False})
