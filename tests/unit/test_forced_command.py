"""`stealtime protect serve` as the only command of a key: what is carried out, and what is refused."""

import io
from pathlib import Path

import pytest

from stealtime.hosts.forced_command import Serving, Taking, read_request, take_file
from stealtime.hosts.lent_machines import OWNER_FILE
from stealtime.lab.platforms.ssh_shell import MarkedShell
from stealtime.vocabulary.errors import StealtimeError, UsageError


@pytest.mark.parametrize("program", ["stealtime", "/opt/stealtime/bin/stealtime"])
def test_what_a_campaign_asks_for_is_understood(program: str) -> None:
    shell = MarkedShell()
    asked = read_request(shell.opening(f"exec {program} protect serve"))
    assert asked == Serving(shell.beginning.decode())
    assert read_request("cat > /srv/images/lent/kernel") == Taking(Path("/srv/images/lent/kernel"))


@pytest.mark.parametrize(
    "asked",
    [
        "sh",
        "sh -c 'id'",
        "cat /etc/shadow",
        "cat > a b",
        "cat > 'unfinished",
        MarkedShell().opening("exec stealtime protect serve; id"),
        MarkedShell().opening("id; exec stealtime protect serve"),
        MarkedShell().command("exec stealtime protect serve"),
    ],
    # Marks are random, and a test is known by its name.
    ids=range(8),
)
def test_all_else_is_refused(asked: str) -> None:
    with pytest.raises(UsageError, match="this key is for `stealtime protect serve`, not for"):
        read_request(asked)


def test_files_go_into_lent_folders_only(tmp_path: Path) -> None:
    images = tmp_path / "images"
    lent = images / "stealtime-lent-x"
    lent.mkdir(parents=True)
    take_file(lent / "kernel", io.BytesIO(b"bzImage"), [images])
    assert (lent / "kernel").read_bytes() == b"bzImage"
    (lent / "link").symlink_to(tmp_path / "elsewhere")
    (images / "stealtime-lent-elsewhere").symlink_to(tmp_path)
    inside = (lent / ".." / "kernel", lent / ".profile", lent / "link", lent / OWNER_FILE)
    for target in (images / "kernel", tmp_path / "kernel", *inside, images / "stealtime-lent-elsewhere" / "kernel"):
        with pytest.raises(StealtimeError):
            take_file(target, io.BytesIO(b"x"), [images])
    assert not (tmp_path / "elsewhere").exists()
    assert sorted(path.name for path in images.iterdir()) == ["stealtime-lent-elsewhere", lent.name]
    assert not (tmp_path / "kernel").exists()
    assert not (lent / OWNER_FILE).exists()
