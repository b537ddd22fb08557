"""Platform names, availability texts and what is told of a machine that went away."""

from pathlib import Path

import pytest

from stealtime.lab.platforms import native, registry, uml
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.lab.platforms.failure import log_tail, read_tail
from stealtime.lab.platforms.process import guarded
from stealtime.lab.platforms.qemu import QemuPlatform
from stealtime.lab.platforms.qemu_flavour import FLAVOURS
from stealtime.lab.platforms.ssh import SshPlatform
from stealtime.vocabulary.errors import UsageError


def test_every_platform_is_found_by_its_name() -> None:
    names = [platform.name for platform in registry.all_platforms()]
    assert names == [
        "native",
        "uml",
        "qemu-tcg-emulated",
        "qemu-tcg-paravirt",
        "qemu-kvm-emulated",
        "qemu-kvm-paravirt",
        "qemu-kvm-hyperv",
    ]
    assert [registry.find(name).name for name in names] == names


def test_an_unknown_platform_is_a_usage_error_that_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match="no platform 'qemu-tcg-paravirtual'") as caught:
        registry.find("qemu-tcg-paravirtual")
    assert (caught.value.hint or "").startswith("did you mean qemu-tcg-paravirt?")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ssh:host", ("host", None, None)),
        ("ssh:me@host.example.org:2222", ("host.example.org", "me", 2222)),
        ("ssh:me@[fe80::1]:22", ("fe80::1", "me", 22)),
    ],
)
def test_ssh_names_are_taken_apart(name: str, parts: tuple[str, str | None, int | None]) -> None:
    platform = SshPlatform.parse(name)
    assert (platform.host, platform.user, platform.port) == parts
    assert registry.find(name).name == name


@pytest.mark.parametrize("name", ["ssh:", "ssh:a b", "ssh:host:99999", "ssh:host:", "ssh:@host"])
def test_a_wrong_ssh_name_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError, match="names no ssh host"):
        SshPlatform.parse(name)


async def test_what_is_missing_makes_a_platform_unusable_with_its_name_and_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    unusable = await uml.UmlPlatform().check()
    assert (unusable.usable, unusable.reason) == (False, "the program linux.uml is not installed")
    assert "user-mode-linux" in (unusable.hint or "")
    unusable = await QemuPlatform(FLAVOURS[0]).check()
    assert (unusable.usable, unusable.reason) == (False, "the program qemu-system-x86_64 is not installed")
    assert "qemu-system-x86" in (unusable.hint or "")
    monkeypatch.setenv("STEALTIME_AGENT", str(tmp_path / "none"))
    unusable = await native.NativePlatform().check()
    assert (unusable.usable, unusable.reason) == (False, f"the agent {tmp_path}/none does not exist")


def test_a_guarded_command_starts_on_its_cpus_and_dies_with_us(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.touch(mode=0o755)
    monkeypatch.setenv("STEALTIME_AGENT", str(agent))
    assert find_agent() == agent
    assert guarded(["linux.uml", "mem=1M"], cpus=(3, 0), pid_namespace=True) == [
        *(str(agent), "guard", "--pid-namespace", "--", "taskset", "--cpu-list", "0,3", "linux.uml", "mem=1M")
    ]
    agent.chmod(0o644)
    with pytest.raises(Exception, match="is not executable"):
        find_agent()


def test_last_words_are_the_panic_or_the_last_line_without_control_sequences(tmp_path: Path) -> None:
    log = tmp_path / "serial.log"
    assert log_tail(log) == "nothing on its console"
    log.write_bytes(b"\x1bc\x1b[?7l\x1b[2J[    0.5] first\r\n[    1.5] Run /init as init process\r\n\r\n")
    assert log_tail(log) == "its last line: Run /init as init process"
    log.write_bytes(b"[ 1.0] Kernel panic - not syncing: VFS: Unable to mount root fs\r\n[ 1.1] ---[ end ]---\r\n")
    assert log_tail(log) == "it said: Kernel panic - not syncing: VFS: Unable to mount root fs"
    log.write_bytes(b"\n".join(b"line %d" % number for number in range(5000)))
    assert read_tail(log).splitlines()[-1] == "line 4999"
    assert len(read_tail(log).splitlines()) == 25
