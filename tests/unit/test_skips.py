"""The list of tests that may be skipped: what it covers, and that it is complete for what is ignored in Rust."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from skips import AllowedSkip, Skips, SkipsPlugin, read_allowed_skips

ROOT = Path(__file__).parents[2]
_IGNORED = re.compile(r'#\[ignore = "(?P<reason>[^"]*)"\](?:\s*#\[[^\n]*\])*\s*fn (?P<name>\w+)')
ALLOWED = {"guest": [AllowedSkip("tests/guest/test_a.py::*[*native*]", r"natively .*", "it is asked elsewhere")]}


def skipped(test: str, reason: str) -> Any:
    return SimpleNamespace(nodeid=test, outcome="skipped", longrepr=("file.py", 3, f"Skipped: {reason}"))


def after(*reports: Any) -> Skips:
    skips = Skips(ALLOWED)
    for report in reports:
        skips.add(report)
    return skips


@pytest.mark.parametrize(
    ("test", "reason", "is_allowed"),
    [
        ("tests/guest/test_a.py::test_one[native]", "natively it is not asked", True),
        ("tests/guest/test_a.py::test_one[tick-native]", "natively it is not asked", True),
        ("tests/guest/test_a.py::test_one[uml]", "natively it is not asked", False),
        ("tests/guest/test_a.py::test_one[native]", "no such program, natively too", False),
        ("tests/guest/test_b.py::test_one[native]", "natively it is not asked", False),
        ("tests/kvm/test_a.py::test_one[native]", "natively it is not asked", False),
    ],
)
def test_a_skip_is_allowed_by_test_and_reason_together(test: str, reason: str, is_allowed: bool) -> None:
    assert (after(skipped(test, reason)).not_allowed == []) is is_allowed


def test_a_test_that_passed_or_was_expected_to_fail_is_no_skip() -> None:
    passed = SimpleNamespace(nodeid="tests/guest/test_a.py::test_one", outcome="passed", longrepr=None)
    expected = skipped("tests/guest/test_a.py::test_one", "known")
    expected.wasxfail = "known"
    assert after(passed, expected).seen == []


@pytest.mark.parametrize(("is_strict", "exit_code"), [(True, 1), (False, 0)])
def test_another_skip_fails_continuous_integration_and_is_told_elsewhere(is_strict: bool, exit_code: int) -> None:
    skips = after(skipped("tests/guest/test_a.py::test_one[uml]", "who knows"))
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    SkipsPlugin(skips, is_strict=is_strict).pytest_sessionfinish(session)
    assert session.exitstatus == exit_code
    assert "test_one[uml] may not be skipped: who knows" in skips.lines(is_strict=is_strict)[-1]


CARGO_LOG = """\
     Running tests/registers.rs (target/debug/deps/registers-1)
test a_process_counts_up ... ignored, one of the processes of the next test
test quick ... ok
---- in_a_folder stdout ----
skipped: this host gives no PID namespaces
"""


def test_rusts_skips_are_read_from_the_log_of_cargo() -> None:
    skips = Skips(read_allowed_skips())
    skips.add_cargo(CARGO_LOG)
    assert skips.seen == [
        ("cargo/a_process_counts_up", "one of the processes of the next test"),
        ("cargo/in_a_folder", "this host gives no PID namespaces"),
    ]
    assert [test for test, _ in skips.not_allowed] == ["cargo/in_a_folder"]


@pytest.mark.parametrize(("variables", "exit_code"), [({"CI": "true"}, 1), ({}, 0)])
def test_the_program_fails_in_continuous_integration_alone(
    tmp_path: Path, variables: dict[str, str], exit_code: int
) -> None:
    log = tmp_path / "cargo.log"
    log.write_text(CARGO_LOG)
    argv = [sys.executable, str(ROOT / "tests/rigs/skips.py"), str(log)]
    ended = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    assert ended.returncode == exit_code, ended.stderr
    assert "cargo/in_a_folder may not be skipped: this host gives no PID namespaces" in ended.stdout


def _name_in_cargo(path: Path, test: str) -> str:
    """A test in a module of a test program is named after both."""
    return test if path.parent.name == "tests" else f"{path.stem}::{test}"


def test_every_ignored_test_of_rust_is_on_the_list_and_the_list_names_no_other() -> None:
    allowed = read_allowed_skips()["cargo"]
    sources = {path: path.read_text() for path in (ROOT / "crates").rglob("*.rs")}
    ignored = [
        (f"cargo/{_name_in_cargo(path, match['name'])}", match["reason"])
        for path, text in sources.items()
        for match in _IGNORED.finditer(text)
    ]
    assert ignored
    unlisted = [one for one in ignored if not any(entry.covers(*one) for entry in allowed)]
    assert not unlisted
    # Others find out when they run; of these the module is known, which a macro may have made.
    others = [entry.tests for entry in allowed if not any(entry.covers(*one) for one in ignored)]
    modules = [re.escape(tests.removeprefix("cargo/").partition("::")[0]) for tests in others]
    assert all(any(re.search(rf"\b{module}\b", text) for text in sources.values()) for module in modules), others


def test_a_test_of_rust_that_leaves_itself_out_says_so_in_the_words_that_are_looked_for() -> None:
    other = re.compile(r'eprintln!\("[^"]*\b(?:left out|not tested)\b')
    assert not [str(path) for path in (ROOT / "crates").rglob("*.rs") if other.search(path.read_text())]


_TEST = re.compile(
    r"^( *)#\[test\]\n(?: *#\[[^\n]*\]\n)*\1fn (?P<name>\w+)\(\)[^\n]*\{\n(?P<body>.*?)^\1\}", re.DOTALL | re.MULTILINE
)
_EARLY = re.compile(r"\breturn\b *[;,}]")
_SAYS_SO = ("skipped: ", "NO_NOTES", "EtcdServer::start", "forget_files(")
"""What is said, and who says it: two that start something for a test, or say why they cannot."""


def test_a_test_of_rust_that_ends_early_says_why() -> None:
    silent = []
    for path in (ROOT / "crates").rglob("*.rs"):
        for test in _TEST.finditer(path.read_text()):
            lines = test["body"].splitlines()
            for number, line in enumerate(lines):
                near = "\n".join(lines[max(0, number - 2) : number + 1])
                if _EARLY.search(line) and not any(words in near for words in _SAYS_SO):
                    silent.append(f"{path.relative_to(ROOT)}: {test['name']}: {line.strip()}")
    assert silent == []
