"""The control socket of a member: a JSON object a line in, one a line out."""

import json
import socket
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stealtime.protect.status import MemberStatus
from stealtime.vocabulary.errors import StealtimeError

ANSWER_WITHIN_S = 10.0
"""A member answers in ms, between two epochs; one that was stopped (SIGSTOP) does not."""

_OUTCOME_WITHIN_S = 60.0
"""A planned switch-over ends an epoch, ships it and waits until the other side runs; an end waits for a register that
does not answer, and then for the standby's host, for `register_deadline` each."""

_LONGEST_ANSWER_BYTES = 1 << 20


class ControlError(StealtimeError):
    """A member cannot be talked with, or refuses."""


class MemberLeftError(ControlError):
    """A member took a command and was gone before it answered."""


class ControlClient:
    """Talks with one member; each command raises :class:`ControlError` where it refuses, or does not answer."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def status(self, *, within_s: float = ANSWER_WITHIN_S) -> MemberStatus:
        """Ask how it stands.

        Raises:
            ControlError: It does not answer, or not with a status.
        """
        answer = self.ask("status", within_s=within_s)
        try:
            return MemberStatus.model_validate(answer)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise ControlError(
                f"the member at {self.path} gives no status: {key}: {first['msg']}",
                hint="is it from another version of stealtime?",
            ) from error

    def failover(self, *, force: bool = False) -> dict[str, Any]:
        """Hand the machine over to its standby, without loss.

        Args:
            force: Let a standby that claims, and that the register has forgotten, take it.
        """
        return self.ask("failover", within_s=_OUTCOME_WITHIN_S, force=force)

    def stop(self) -> str | None:
        """End the machine and let the member leave.

        Returns:
            What came of it, in the member's words; None: it was gone before its answer was, or it stood by.
        """
        try:
            ended = self.ask("stop", within_s=_OUTCOME_WITHIN_S).get("ended")
        except MemberLeftError:
            return None
        return None if ended is None else str(ended)

    def detach(self) -> dict[str, Any]:
        """Stop protecting; the machine goes on alone."""
        return self.ask("detach")

    def fault(self, point: str, action: str, passes: int = 1, *, only_protected: bool = False) -> dict[str, Any]:
        """Break the member when it passes a named step; only where its spec allows that.

        Args:
            point: The step, as ``crates/replicator/src/faults.rs`` names it; ``now``: at once, if it is protected.
            action: ``kill``, ``stop``, ``kill-guest`` or ``delay``.
            passes: At which pass.
            only_protected: Whether passes count only while the guest is protected.
        """
        return self.ask("fault", point=point, action=action, passes=passes, only_protected=only_protected)

    def ask(self, command: str, *, within_s: float = ANSWER_WITHIN_S, **fields: Any) -> dict[str, Any]:
        """Send a command and give its answer.

        Raises:
            ControlError: The member is gone, silent, or refuses; then its own words and hint.
        """
        try:
            line = self._exchange(json.dumps({"command": command, **fields}), within_s)
        except TimeoutError:
            raise ControlError(
                f"the member at {self.path} has not answered {command!r} within {within_s:g} s",
                hint="it does not respond: see member.log beside the socket",
            ) from None
        except EOFError:
            raise MemberLeftError(
                f"the member at {self.path} ended before it answered {command!r}",
                hint="see member.log beside the socket",
            ) from None
        except OSError as error:
            raise ControlError(
                f"there is no member at {self.path}: {error.strerror or error}",
                hint="see `stealtime protect status`, and member.log beside the socket",
            ) from error
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise ControlError(f"the member at {self.path} answered {command!r} with {line[:80]!r}, not a JSON object")
        if "error" in answer:
            raise ControlError(str(answer["error"]), hint=answer.get("hint"))
        return answer

    def _exchange(self, line: str, within_s: float) -> str:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(within_s)
            connection.connect(str(self.path))
            connection.sendall(line.encode() + b"\n")
            try:
                with connection.makefile("rb") as reader:
                    answer = reader.readline(_LONGEST_ANSWER_BYTES)
            except ConnectionResetError as error:
                raise EOFError from error
        if not answer.endswith(b"\n"):
            raise EOFError
        return answer.decode("utf-8", "replace").strip()
