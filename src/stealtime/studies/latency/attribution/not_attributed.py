"""Why a trial's spikes cannot be split into causes."""

from stealtime.vocabulary.errors import ExitCode, StealtimeError


class NotAttributed(StealtimeError):  # noqa: N818 - it is a verdict more than an error
    """The spikes of a trial cannot be split into causes; the message says why."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint, exit_code=ExitCode.NOT_JUDGED)
