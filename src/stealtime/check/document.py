"""What ``stealtime check --json`` prints."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stealtime.vocabulary.errors import ExitCode

SCHEMA_VERSION = 1

Verdict = Literal["passed", "warning", "failed", "not_judged"]


class CheckDocument(BaseModel):
    """One verdict of one machine."""

    model_config = ConfigDict(extra="forbid")

    schema_version: Literal[1] = 1
    target: str
    verdict: Verdict
    """``warning`` is within the bar, but over the level of a warning."""
    summary: str
    """One sentence: how late, where, against what, and why."""
    cause: str | None
    """None where nothing was late."""
    cause_is_known: bool
    hint: str | None
    limits: list[str]
    """What a reader must know besides."""
    reasons: list[str]
    """Why it was not judged."""
    bar: str
    """As it was asked for: a duration, a name, a file."""
    bar_title: str | None
    agent: dict[str, Any] = Field(repr=False)
    """What ``stealtime-agent check --format json`` printed there, with a series for each CPU."""

    @property
    def exit_code(self) -> ExitCode:
        if self.verdict == "failed":
            return ExitCode.THRESHOLD
        return ExitCode.NOT_JUDGED if self.verdict == "not_judged" else ExitCode.FINE


class _Cause(BaseModel):
    text: str
    is_known: bool


class AgentReport(BaseModel):
    """What is read of the agent's document here."""

    schema_version: Literal[1]
    state: Literal["ok", "warning", "critical", "not_judged"]
    summary: str
    hint: str | None
    cause: _Cause | None
    limits: list[str]
    reasons: list[str]


VERDICTS: dict[str, Verdict] = {
    "ok": "passed",
    "warning": "warning",
    "critical": "failed",
    "not_judged": "not_judged",
}
WORDS: dict[Verdict, str] = {
    "passed": "PASSED",
    "warning": "WARNING",
    "failed": "OVER THE BAR",
    "not_judged": "NOT JUDGED",
}
