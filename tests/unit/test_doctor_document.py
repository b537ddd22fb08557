"""What doctor proves by booting, counts, prints and ends with."""

import io
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import jsonschema
import pytest
from fabricated_machine import FabricatedAttempts, fabricate
from rich.console import Console

from stealtime.doctor import clock, memory, model, platforms, processor, programs, scheduling, storage, tracing
from stealtime.doctor.attempts import RealAttempts
from stealtime.doctor.document import DoctorDocument, exit_code, make_document
from stealtime.doctor.files import Files
from stealtime.doctor.findings import examine
from stealtime.doctor.model import Level
from stealtime.doctor.programs import required_packages
from stealtime.doctor.table import FindingsTable
from stealtime.lab.platforms.model import Availability, BootRecord, Machine, MachineRequest
from stealtime.schemas import DOCUMENTS
from stealtime.vocabulary.cpu_lists import parse_cpu_list
from stealtime.vocabulary.errors import ExitCode, StealtimeError


class FabricatedPlatform:
    """A platform whose check and boot have known ends."""

    def __init__(
        self, name: str, outcome: Availability | StealtimeError, boot_failure: StealtimeError | None = None
    ) -> None:
        self.name = name
        self.requests: list[MachineRequest] = []
        self._outcome = outcome
        self._boot_failure = boot_failure

    async def check(self) -> Availability:
        if isinstance(self._outcome, StealtimeError):
            raise self._outcome
        return self._outcome

    @asynccontextmanager
    async def boot(self, request: MachineRequest) -> AsyncIterator[Machine]:
        assert request.folder.is_dir()
        self.requests.append(request)
        if self._boot_failure is not None:
            raise self._boot_failure
        yield cast("Machine", SimpleNamespace(boot=BootRecord(argv=(), elapsed_to_hello_s=1.44)))


NATIVE = FabricatedPlatform("native", Availability(usable=True, reason="x86-64"))
UML = FabricatedPlatform("uml", Availability(usable=True, reason="linux.uml is 6.1"))
HANGING_KVM = FabricatedPlatform(
    "qemu-kvm-paravirt",
    Availability(usable=False, reason="a guest printed nothing within 5 s under KVM", hint="use the TCG platforms"),
)


async def document_of(tmp_path: Path, *platforms: FabricatedPlatform) -> DoctorDocument:
    return make_document(await examine(platforms, files=fabricate(tmp_path), attempts=FabricatedAttempts()))


async def test_one_guest_platform_is_enough_and_an_unusable_one_only_limits(tmp_path: Path) -> None:
    document = await document_of(tmp_path, NATIVE, UML, HANGING_KVM)
    levels = {finding.id: finding.level for finding in document.findings}
    assert levels["platform:native"] is Level.OK
    assert levels["platform:uml"] is Level.OK
    assert levels["platform:qemu-kvm-paravirt"] is Level.LIMITS
    [kvm] = [finding for finding in document.findings if finding.id == "platform:qemu-kvm-paravirt"]
    assert kvm.text == "not usable, because a guest printed nothing within 5 s under KVM"
    assert kvm.fix == "use the TCG platforms"
    assert document.summary.limits == 1
    assert exit_code(document) is ExitCode.FINE


async def test_no_usable_guest_blocks_and_ends_with_4(tmp_path: Path) -> None:
    document = await document_of(tmp_path, NATIVE, HANGING_KVM)
    assert [finding.id for finding in document.findings if finding.level is Level.BLOCKS] == ["guest_platforms"]
    assert exit_code(document) is ExitCode.NOT_JUDGED


async def test_a_check_that_fails_is_a_finding_and_the_rest_goes_on(tmp_path: Path) -> None:
    broken = FabricatedPlatform("qemu-tcg-paravirt", StealtimeError("qemu-system-x86_64 exited 1", hint="look"))
    document = await document_of(tmp_path, NATIVE, broken, UML)
    [finding] = [finding for finding in document.findings if finding.id == "platform:qemu-tcg-paravirt"]
    assert (finding.level, finding.fix) == (Level.LIMITS, "look")
    assert exit_code(document) is ExitCode.FINE


async def test_a_platform_whose_check_is_well_is_usable_only_if_it_boots(tmp_path: Path) -> None:
    usable = Availability(usable=True, reason="linux.uml is 6.1")
    boots = FabricatedPlatform("uml", usable)
    panics = FabricatedPlatform("uml", usable, StealtimeError("the guest panicked: no init", hint="see serial.log"))
    good = await document_of(tmp_path, NATIVE, boots)
    bad = await document_of(tmp_path, NATIVE, panics)
    [good_uml] = [finding for finding in good.findings if finding.id == "platform:uml"]
    [bad_uml] = [finding for finding in bad.findings if finding.id == "platform:uml"]
    assert good_uml.text == "usable: its agent answered after 1.4 s; linux.uml is 6.1"
    assert (bad_uml.level, bad_uml.text) == (Level.LIMITS, "not usable, because the guest panicked: no init")
    assert (exit_code(good), exit_code(bad)) == (ExitCode.FINE, ExitCode.NOT_JUDGED)
    # On the last CPU, all else on the others; and the folder is gone.
    assert boots.requests[0].vcpu_cpus == ((3,),)
    assert boots.requests[0].housekeeping_cpus == (0, 1, 2)
    assert not boots.requests[0].folder.exists()


async def test_each_platform_is_announced_before_it_is_proved(tmp_path: Path) -> None:
    announced: list[str] = []
    await examine([NATIVE, UML], files=fabricate(tmp_path), attempts=FabricatedAttempts(), on_platform=announced.append)
    assert announced == ["native", "uml"]


async def test_the_document_is_versioned_and_survives_json(tmp_path: Path) -> None:
    document = await document_of(tmp_path, NATIVE, UML)
    written = json.loads(document.model_dump_json())
    assert written["schema_version"] == 1
    assert set(written["findings"][0]) == {"id", "group", "title", "level", "text", "reading", "why", "fix"}
    assert all(set(finding["reading"]) in ({"value"}, {"absent"}) for finding in written["findings"])
    summary = written["summary"]
    assert summary["ok"] + summary["limits"] + summary["blocks"] == len(written["findings"])
    assert DoctorDocument.model_validate(written) == document
    schema = DOCUMENTS["doctor"].schema()
    jsonschema.validate(written, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**written, "summary": {}}, schema)


async def test_the_table_shows_the_fix_of_what_is_not_well_only(tmp_path: Path) -> None:
    document = await document_of(tmp_path, NATIVE, UML, HANGING_KVM)
    printed = io.StringIO()
    Console(file=printed, width=120, color_system=None).print(FindingsTable(document))
    lines = [line.strip() for line in printed.getvalue().splitlines()]
    assert [line for line in lines if line.startswith("fix:")] == ["fix: use the TCG platforms"]
    assert lines[0] == "platforms"
    assert lines[-1].endswith("1 limit results, 0 block")
    # Every finding is there with its title.
    assert all(any(finding.title in line for line in lines) for finding in document.findings)


async def test_the_table_tells_a_reason_that_several_platforms_share_once(tmp_path: Path) -> None:
    same = FabricatedPlatform("qemu-kvm-hyperv", await HANGING_KVM.check())
    document = await document_of(tmp_path, NATIVE, UML, HANGING_KVM, same)
    printed = io.StringIO()
    Console(file=printed, width=120, color_system=None).print(FindingsTable(document))
    assert printed.getvalue().count("printed nothing within 5 s") == 1
    [line] = [line for line in printed.getvalue().splitlines() if "qemu-kvm-hyperv" in line]
    assert line.strip().endswith("same as above")


def test_every_finding_is_explained_in_the_documentation() -> None:
    findings = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text()
    modules = (clock, memory, platforms, processor, programs, scheduling, storage, tracing)
    subjects = [thing for module in modules for thing in vars(module).values() if isinstance(thing, model.Subject)]
    assert len(subjects) > 30
    assert [subject.id for subject in subjects if f"`{subject.id}`" not in findings] == []


def test_the_package_table_names_every_ring_and_splits_into_four_cells() -> None:
    packages = required_packages()
    assert {package.ring for package in packages} == {"python", "build", "run", "test", "bench", "packages"}
    assert {"qemu-system-x86", "user-mode-linux"} <= {package.package for package in packages if package.ring == "run"}
    assert all(package.purpose for package in packages)


@pytest.mark.parametrize(("text", "cpus"), [("0-2,5\n", [0, 1, 2, 5]), ("7", [7]), ("", [])])
def test_cpu_lists_of_the_kernel_are_read_whole(text: str, cpus: list[int]) -> None:
    assert parse_cpu_list(text) == cpus


def test_a_file_that_is_missing_or_no_number_says_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("fast")
    files = Files(tmp_path)
    assert "does not exist" in str(files.number("/gone"))
    assert "'fast', not a number" in str(files.number("/text"))


def test_real_tries_on_this_machine_leave_it_as_it_was() -> None:
    before = os.sched_getscheduler(0)
    attempts = RealAttempts()
    assert attempts.sched_fifo().text
    assert os.sched_getscheduler(0) == before
    assert attempts.lock_memory(1 << 20).text
    assert attempts.perf_event("software").text
    assert attempts.run(["sh", "-c", "echo out; echo err >&2; exit 3"]).text == "err"
    assert attempts.run(["/nonexistent/program"]).succeeded is False
    assert attempts.free_bytes(Path("/nonexistent/folder")) > 0
