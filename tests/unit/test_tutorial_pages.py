"""How a tutorial is read and held against what it prints; the machines are in the rings of guests and of protection."""

from pathlib import Path

import pytest
from tutorials import ROOT, Step, Tutorial, carry_out, missing, shape, shorter, steps_of

PAGE = """# A page

```sh
echo one
```

Then:

```text
one
```

<!-- long -->

```sh
sleep 10m
```

```toml
name = "no command"
```
"""


def test_a_block_has_what_it_promises() -> None:
    assert steps_of(PAGE) == [Step("echo one\n", ("one",)), Step("sleep 10m\n", is_long=True)]
    with pytest.raises(ValueError, match="no command prints this"):
        steps_of("```text\nout of nothing\n```\n")


def test_what_is_made_shorter_must_occur() -> None:
    assert shorter(steps_of(PAGE), {"sleep 10m": "sleep 0"})[1].commands == "sleep 0\n"
    with pytest.raises(ValueError, match="sleep 11m"):
        shorter(steps_of(PAGE), {"sleep 11m": "sleep 0"})


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("native  wakeup-1ms  1.9 us (0.3 to 12)", "native   wakeup-1ms  312 ns (0.1 to 1.02 ms)"),
        (
            "20261127T073500Z-quick-3f2a: 8 cells, about 2 min 08 s",
            "20270101T000000Z-quick-aaaa: 8 cells, about 58.1 s",
        ),
        ("longest silence, TCP  336 ms", "longest silence, TCP  1.02 s"),
        ("native  2,000  4.59  1.46~‡  7.25\N{MULTIPLICATION SIGN}", "native  100  31  2.5  3"),
        ("0  100.0 %  ██████████", "0  99.2 %  ▇▇▆"),
        ("platform  n  µs  ms  ratio", "platform  n  ns  µs  ratio"),
        ("42 % of 1,257,146", "7% of 12"),
    ],
)
def test_other_figures_and_spaces_are_the_same_line(written: str, printed: str) -> None:
    assert shape(written) == shape(printed)
    assert missing([written], ["before", printed, "after"]) == []


def test_other_words_or_another_order_are_not() -> None:
    printed = ["exit code 3", "passed: qemu-tcg-paravirt"]
    assert missing(["passed: qemu-tcg-emulated"], printed) == ["passed: qemu-tcg-emulated"]
    assert missing(["passed: ...", "exit code 0"], printed) == ["exit code 0"], "it was printed before"
    assert missing(["passed: ...", "...", ""], printed) == []
    assert missing(["exit code 0"], ["exit code 3"]) == ["exit code 0"], "how a command ends is no figure"


def test_a_reader_has_a_home_and_one_shell(tmp_path: Path) -> None:
    steps = [
        Step("kept=3; cd ~; pwd\n"),
        Step("true\nfalse\ntrue\n"),
        Step('(exit $kept); echo "exit code $?"\n'),
    ]
    home, failed, shown = carry_out(steps, tmp_path, 10)
    assert home.lines == (str(tmp_path / "home"),)
    assert [failure for failure in failed.failures if "false" in failure]
    assert shown.lines == ("exit code 3",)
    assert not shown.failures


def test_a_shell_that_ends_early_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the shell ended in step 2"):
        carry_out([Step("true\n"), Step("exit 0\n"), Step("true\n")], tmp_path, 10)


def test_what_differs_on_each_machine_must_occur() -> None:
    with pytest.raises(ValueError, match=r"no line of .* begins so: .*a reader with a headache"):
        Tutorial("tutorial-gate.md", {}, own=("a reader with a headache",)).steps()


def test_each_tutorial_has_commands_that_promise_something() -> None:
    pages = sorted((ROOT / "docs").glob("tutorial-*.md"))
    assert [page.stem for page in pages] == ["tutorial-capacity", "tutorial-gate", "tutorial-telephony"]
    for page in pages:
        steps = steps_of(page.read_text())
        assert sum(bool(step.promised) for step in steps) >= 3, page
