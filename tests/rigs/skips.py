"""Which tests may be skipped: a skipped test shows nothing, and nobody misses it. A pytest plugin, and a program.

The list is ``tests/allowed_skips.toml``. In continuous integration (the variable ``CI`` is set) any other skip fails
the run; elsewhere it is told. ``python tests/rigs/skips.py LOG...`` does the same for what ``cargo test --
--show-output`` has printed: Rust's tests are skipped by ``#[ignore = "..."]``, or say ``skipped: ...`` and return.
"""

import os
import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ALLOWED_SKIPS = Path(__file__).parent.parent / "allowed_skips.toml"
_IN_CARGO = re.compile(
    r"^(?:test (?P<test>\S+) \.\.\. ignored, |---- (?P<shown>\S+) stdout ----$|skipped: )(?P<reason>.*)$"
)


@dataclass(frozen=True)
class AllowedSkip:
    """Tests that may be skipped for one reason."""

    tests: str
    """A pattern of node ids, as of ``fnmatch``, in which brackets stand for themselves."""
    reason: str
    """A regular expression that the whole reason matches."""
    because: str
    """Why nothing is lost by that."""

    def covers(self, test: str, reason: str) -> bool:
        """Tell whether a test may be skipped for this reason."""
        return fnmatchcase(test, self.tests.replace("[", "[[]")) and bool(re.fullmatch(self.reason, reason, re.DOTALL))


def read_allowed_skips(path: Path = ALLOWED_SKIPS) -> dict[str, list[AllowedSkip]]:
    """Read the list, by ring: the folder below ``tests``, or ``cargo``."""
    document = tomllib.loads(path.read_text("utf-8"))
    return {ring: [AllowedSkip(**entry) for entry in entries] for ring, entries in document.items()}


@dataclass
class Skips:
    """Of one run of pytest."""

    allowed: dict[str, list[AllowedSkip]]
    seen: list[tuple[str, str]] = field(default_factory=list)
    """Node id and reason."""

    def add(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Take over what a report tells of a skip."""
        if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
            said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.seen.append((report.nodeid, said.removeprefix("Skipped: ")))

    def add_cargo(self, log: str) -> None:
        """Take over the skips that a log of ``cargo test`` tells; their node ids are ``cargo/TEST``."""
        shown = ""
        for match in filter(None, map(_IN_CARGO.match, log.splitlines())):
            shown = match["shown"] or shown
            if match["shown"] is None:
                self.seen.append((f"cargo/{match['test'] or shown}", match["reason"]))

    @property
    def not_allowed(self) -> list[tuple[str, str]]:
        """Those that the list does not have."""
        return [
            (test, reason)
            for test, reason in self.seen
            if not any(one.covers(test, reason) for one in self.allowed.get(_ring_of(test), ()))
        ]

    def lines(self, *, is_strict: bool) -> list[str]:
        """Tell all of them, those of one file for one reason in one line, and last each that is not allowed."""
        counts = Counter((test.split("::", 1)[0], reason) for test, reason in self.seen)
        told = [f"{count} in {file}: {reason}" for (file, reason), count in counts.items()]
        word = "error" if is_strict else "warning"
        return told + [
            f"{word}: {test} may not be skipped: {reason} (the list is tests/{ALLOWED_SKIPS.name})"
            for test, reason in self.not_allowed
        ]


class SkipsPlugin:
    """Notes every skip, prints them at the end, and fails the run where one is not allowed and that counts."""

    def __init__(self, skips: Skips, *, is_strict: bool) -> None:
        self._skips = skips
        self._is_strict = is_strict

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._skips.add(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        # Of a file that is skipped as a whole.
        self._skips.add(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._is_strict and self._skips.not_allowed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._skips.seen:
            terminalreporter.section("skipped")
        for line in self._skips.lines(is_strict=self._is_strict):
            terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    # Workers of xdist tell the process that prints.
    if not hasattr(config, "workerinput"):
        plugin = SkipsPlugin(Skips(read_allowed_skips()), is_strict=_is_strict())
        config.pluginmanager.register(plugin, "stealtime-skips")


def _is_strict() -> bool:
    return bool(os.environ.get("CI"))


def _ring_of(test: str) -> str:
    return test.removeprefix("tests/").split("/", 1)[0]


def main() -> None:
    skips = Skips(read_allowed_skips())
    for log in sys.argv[1:]:
        skips.add_cargo(Path(log).read_text("utf-8", errors="replace"))
    for line in skips.lines(is_strict=_is_strict()):
        sys.stdout.write(f"cargo skipped: {line}\n")
    sys.exit(bool(skips.not_allowed) and _is_strict())


if __name__ == "__main__":
    main()
