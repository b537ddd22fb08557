"""`stealtime protect recover`: what is said of a machine by who was found to live, and its document."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command, make_command
from documents import hold_against_schema

from stealtime.protect import recovery
from stealtime.protect.recovery import Account
from stealtime.protect.state import STATE_VARIABLE
from stealtime.vocabulary.errors import StealtimeError

FILE = Path("phone.toml")


def account(verdict: str, *states: str, **of_last: Any) -> Account:
    """What the replicator told of hosts a, b and so on; more of the last of them."""
    known: dict[str, Any] = {"member": None, "term": None, "role": None, "reason": None}
    hosts = [{"host": name, "state": state, **known} for name, state in zip("abc", states, strict=False)]
    hosts[-1].update(of_last)
    told = {"vm": "phone", "register": "memory", "term": None, "members": [], "hosts": hosts, "verdict": verdict}
    return Account.model_validate_json(json.dumps(told))


@pytest.fixture
def stealtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "p"))
    return make_command(monkeypatch, capsys)


@pytest.fixture
def recover(stealtime: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Give what the command ends with where this was found."""
    file = tmp_path / FILE
    file.write_text('name = "phone"\nprogram = "counter"\n')

    def ask(found: Account | StealtimeError, *options: str) -> Any:
        def account_of(*_: object) -> Account:
            if isinstance(found, StealtimeError):
                raise found
            return found

        monkeypatch.setattr(recovery, "account_of", account_of)
        return stealtime("protect", "recover", str(file), "--host", "a", *options)

    return ask


def test_the_hosts_that_were_asked_are_named() -> None:
    assert account("gone", "over", "over", "over").words(FILE) == (
        "phone: its state is gone, as no process of it is left on a, b and c; "
        "`stealtime protect recover phone.toml --boot` boots it anew"
    )
    assert account("vacant", "over", "over").words(FILE) == (
        "phone: nobody holds it, and no process of it is left on a and b; "
        "`stealtime protect start phone.toml` starts it"
    )


def test_who_lives_is_named_as_far_as_it_says_who_it_is() -> None:
    lives = account("lives", "unknown", "lives", member="b@7", term=9, role="standby")
    assert lives.words(FILE).startswith("phone: b@7 lives on b and may have its state; see ")
    assert account("lives", "over", "lives").words(FILE).startswith("phone: a member lives on b and may have its state")


def test_a_host_that_did_not_answer_is_named_with_what_to_do() -> None:
    words = account("unknown", "over", "over", "unknown", reason="c gave no answer within 5 s").words(FILE)
    assert "not judged, because c may have its state and cannot be asked: c gave no answer within 5 s" in words
    assert "Have its daemon run (systemctl start stealtime-host), and ask again" in words
    assert "if c is lost for good, `stealtime protect start phone.toml --force`" in words


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (account("vacant", "over"), 3),
        (account("gone", "over", "over"), 3),
        (account("lives", "over", "lives"), 0),
        (account("unknown", "over", "unknown", reason="it is off"), 1),
        (StealtimeError("phone: the register gives no answer"), 1),
    ],
)
def test_the_document_has_what_was_found_of_each_machine(
    recover: Callable[..., Any], found: Account | StealtimeError, code: int
) -> None:
    ended = recover(found, "--json")
    assert ended.code == code
    document = json.loads(ended.out)
    hold_against_schema(document, "recover")
    (machine,) = document["machines"]
    assert machine["text"] in ended.err
    verdict = None if isinstance(found, StealtimeError) else found.verdict
    assert (machine["account"] and machine["account"]["verdict"]) == verdict
    assert machine["is_booted"] is False


@pytest.mark.parametrize("verdict", ["lives", "unknown"])
def test_what_may_live_is_not_booted(recover: Callable[..., Any], verdict: str) -> None:
    ended = recover(account(verdict, "over", verdict, reason="it is off"), "--boot", "--json")
    assert json.loads(ended.out)["machines"][0]["is_booted"] is False
