"""KVM is proved by a boot: told truthfully, remembered, and not tried in vain."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from stealtime.lab.image.kernel import Kernel
from stealtime.lab.platforms import kvm_proof
from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.model import Machine, MachineRequest
from stealtime.lab.platforms.qemu_flavour import QemuFlavour
from stealtime.vocabulary.errors import UsageError

PARAVIRT, HYPERV = QemuFlavour("kvm", "paravirt"), QemuFlavour("kvm", "hyperv")
HANG = MachineError(
    "qemu-kvm-paravirt did not reach its agent within 8 s; its last line: Booting paravirtualized kernel"
)


class Boots:
    """Boots that fail as told, and a count of them."""

    def __init__(self, failure: MachineError) -> None:
        self.failure, self.requests, self.flavours = failure, list[MachineRequest](), list[QemuFlavour]()

    def of(self, flavour: QemuFlavour) -> kvm_proof.Boot:
        self.flavours.append(flavour)
        return self

    def __call__(self, request: MachineRequest) -> AbstractAsyncContextManager[Machine]:
        return self._boot(request)

    @asynccontextmanager
    async def _boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        self.requests.append(request)
        raise self.failure
        yield


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    device = tmp_path / "kvm"
    device.touch()
    boot_id = tmp_path / "boot_id"
    boot_id.write_text("first boot\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(kvm_proof, "_BOOT_ID", boot_id)
    monkeypatch.setattr(kvm_proof, "device_refusal", lambda: None)
    kernel = Kernel("rt", "6.1", "6.1 test", tmp_path, "vmlinux", "0" * 64, None)
    monkeypatch.setattr(kvm_proof, "find_kernel", lambda choice: kernel)
    return tmp_path


async def test_a_guest_that_hangs_is_not_usable_because_of_its_last_line_and_is_tried_once() -> None:
    boots = Boots(HANG)
    first = await kvm_proof.prove(PARAVIRT, "7.2", boots.of)
    assert not first.usable
    assert "did not reach its agent within 8 s; its last line: Booting paravirtualized kernel" in first.reason
    assert "opens, but a guest does not boot under it" in first.reason
    assert "qemu-tcg" in (first.hint or "")
    limit_s, silence_s = boots.requests[0].boot_timeout_s, boots.requests[0].silence_timeout_s
    assert limit_s >= kvm_proof.LEAST_LIMIT_S
    assert silence_s == limit_s / 4, "a kernel that boots speaks at once"
    assert await kvm_proof.prove(PARAVIRT, "7.2", boots.of) == first
    assert len(boots.requests) == 1, "the answer must be remembered"
    assert not boots.requests[0].folder.exists()


async def test_the_other_flavours_are_not_tried_where_the_plain_one_fails() -> None:
    boots = Boots(HANG)
    answer = await kvm_proof.prove(HYPERV, "7.2", boots.of)
    assert not answer.usable
    assert await kvm_proof.prove(PARAVIRT, "7.2", boots.of) == answer
    assert boots.flavours == [PARAVIRT]


async def test_another_boot_of_the_host_or_another_qemu_is_proved_anew(host: Path) -> None:
    boots = Boots(HANG)
    await kvm_proof.prove(PARAVIRT, "7.2", boots.of)
    await kvm_proof.prove(PARAVIRT, "8.0", boots.of)
    (host / "boot_id").write_text("second boot\n")
    await kvm_proof.prove(PARAVIRT, "8.0", boots.of)
    assert len(boots.requests) == 3


async def test_the_limit_is_a_setting_and_another_one_is_tried_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    boots = Boots(HANG)
    for limit in ("90", "120"):
        monkeypatch.setenv(kvm_proof.LIMIT_VARIABLE, limit)
        answer = await kvm_proof.prove(PARAVIRT, "7.2", boots.of)
        assert f"set {kvm_proof.LIMIT_VARIABLE} to more than {limit}" in (answer.hint or "")
    assert [request.boot_timeout_s for request in boots.requests] == [90.0, 120.0]


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "inf", "nan"])
def test_a_limit_that_is_no_duration_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(kvm_proof.LIMIT_VARIABLE, text)
    with pytest.raises(UsageError, match=kvm_proof.LIMIT_VARIABLE):
        kvm_proof.proof_limit_s()


def test_a_slower_host_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = iter([0.4, 0.2, 0.3, 0.5, 0.6])
    monkeypatch.setattr(kvm_proof, "_work_s", lambda: next(times_s))
    assert kvm_proof.proof_limit_s() == pytest.approx(kvm_proof.LEAST_LIMIT_S * 0.2 / kvm_proof._REFERENCE_S)
    monkeypatch.setattr(kvm_proof, "_work_s", lambda: 0.001)
    assert kvm_proof.proof_limit_s() == kvm_proof.LEAST_LIMIT_S


def test_a_missing_device_says_what_to_turn_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    refusal = kvm_proof.device_refusal(tmp_path / "none")
    assert refusal is not None
    assert "does not exist" in refusal.reason
    assert "VT-x" in (refusal.hint or "")
    refusal = kvm_proof.device_refusal(tmp_path)
    assert refusal is not None
    assert "cannot be opened: Is a directory" in refusal.reason
