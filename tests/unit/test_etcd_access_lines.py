"""The lines of ``protect etcd-access``: what they open, and wrong usage (tests/protect carries them out)."""

import pytest
from typer.testing import CliRunner

from stealtime.cli.protect import application
from stealtime.protect.etcd_access import lines_to_grant, lines_to_revoke
from stealtime.vocabulary.errors import UsageError


def test_each_role_opens_the_record_of_one_machine() -> None:
    lines = lines_to_grant(["counter", "phones"], ["a", "b"])
    opened = [line.split()[4:] for line in lines if "grant-permission" in line]
    assert opened == [
        ["readwrite", "/stealtime/protect/counter"],
        ["readwrite", "/stealtime/protect/phones"],
    ]
    assert not any("--prefix" in line for line in lines)
    assert sum("grant-role" in line for line in lines) == 4


def test_machines_or_whole_hosts_are_taken_out_again() -> None:
    assert lines_to_revoke(["counter"], ["a"]) == ["etcdctl user revoke-role stealtime-host-a stealtime-counter"]
    assert lines_to_revoke([], ["a", "b"]) == [
        "etcdctl user delete stealtime-host-a",
        "etcdctl user delete stealtime-host-b",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["counter"], "name machines and hosts"),
        (["--host", "a"], "name machines and hosts"),
        (["Counter; rm", "--host", "a"], "is not the name of a machine"),
        (["counter", "--host", "a b"], "is not a host name"),
    ],
)
def test_nothing_is_printed_for_a_shell_that_is_no_name(words: list[str], said: str) -> None:
    done = CliRunner().invoke(application(), ["etcd-access", *words])
    assert isinstance(done.exception, UsageError)
    assert said in done.exception.message
    assert done.output == ""
