"""The Debian packages: installed into an empty root they run, have a page for each command, and please lintian."""

import re
import shutil
from io import BytesIO
from pathlib import Path

import pytest
from built_packages import BUILT, VERSION, help_commands, run
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from stealtime.protect.systemd import UNITS, unit_text

PAGES = "usr/share/man/man1"
OF_LIBC6 = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
OF_LIBGCC = {"libgcc_s.so.1"}


@pytest.fixture(scope="module")
def root(agent_deb: Path, replicator_deb: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty root with both packages: the agent installed, the replicator unpacked, since its scripts ask systemd."""
    root = tmp_path_factory.mktemp("root")
    (root / "var/lib/dpkg/updates").mkdir(parents=True)
    (root / "var/lib/dpkg/info").mkdir()
    (root / "var/lib/dpkg/status").touch()
    dpkg = shutil.which("dpkg")
    assert dpkg is not None
    run(dpkg, f"--root={root}", "--install", agent_deb)
    run(dpkg, f"--root={root}", "--force-depends", "--unpack", replicator_deb)
    return root


def test_the_agent_runs_where_nothing_else_is(root: Path) -> None:
    assert not list((root / "lib").rglob("*.so*"))
    assert run("chroot", root, "/usr/bin/stealtime-agent", "--version") == f"stealtime-agent {VERSION}\n"
    state = run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat=${Status}", "stealtime-agent")
    assert state == "install ok installed"


def glibc_of(file: Path) -> tuple[int, int]:
    """Give the newest version of glibc of which a file needs a symbol."""
    needs = ELFFile(BytesIO(file.read_bytes())).get_section_by_name(".gnu.version_r")
    assert isinstance(needs, GNUVerNeedSection)
    names = [version.name for _, versions in needs.iter_versions() for version in versions]
    found = [re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", name) for name in names]
    return max((int(one[1]), int(one[2])) for one in found if one is not None)


def test_the_replicator_needs_only_what_its_package_depends_on(root: Path, replicator_deb: Path) -> None:
    program = root / "usr/bin/stealtime-replicator"
    assert run(program, "--version") == f"stealtime-replicator {VERSION}\n"
    library = root / "usr/lib/stealtime/libstealtime_pagetrack.so"
    needed = {
        str(vars(tag)["needed"])
        for file in (program, library)
        for section in ELFFile(BytesIO(file.read_bytes())).iter_sections()
        if isinstance(section, DynamicSection)
        for tag in section.iter_tags("DT_NEEDED")
    }
    assert "libc.so.6" in needed
    depends = run("dpkg-deb", "--field", replicator_deb, "Depends")
    oldest = re.search(r"libc6 \(>= (\d+)\.(\d+)\)", depends)
    assert oldest is not None
    assert (int(oldest[1]), int(oldest[2])) == max(glibc_of(program), glibc_of(library)), depends
    assert needed <= OF_LIBC6 | (OF_LIBGCC if "libgcc-s1" in depends else set())


@pytest.mark.parametrize("name", ["stealtime-agent", "stealtime-replicator"])
def test_each_command_has_a_man_page_of_its_help(root: Path, name: str) -> None:
    commands = help_commands(root / "usr/bin" / name)
    assert len(commands) >= 3
    pages = {page.name for page in (root / PAGES).glob(f"{name}*.1.gz")}
    assert pages == {f"{name}.1.gz", *(f"{name}-{command}.1.gz" for command in commands)}
    for page in pages:
        text = run("man", "--warnings", "-l", root / PAGES / page)
        assert "NAME" in text
        assert "SYNOPSIS" in text
        assert page.removesuffix(".1.gz") in text


def test_stealtime_itself_has_man_pages() -> None:
    text = run("man", "-l", BUILT / "man" / "stealtime-run.1")
    assert "Measure this machine against its virtual machines" in " ".join(text.split())


def test_the_units_are_those_of_the_tool_with_the_programs_of_the_package(root: Path) -> None:
    for name in UNITS:
        unit = (root / "lib/systemd/system" / name).read_text("utf-8")
        added = [line for line in unit.splitlines() if line.startswith("Environment=STEALTIME_")]
        places = [line.rsplit("=", 1)[1] for line in added]
        assert len(places) == 2
        assert all((root / place.lstrip("/")).is_file() for place in places)
        rest = "".join(line for line in unit.splitlines(keepends=True) if line.rstrip("\n") not in added)
        lines, ours = rest.splitlines(), unit_text(name).splitlines()
        other = [(line, our) for line, our in zip(lines, ours, strict=True) if line != our]
        assert other
        assert all(line.split("=")[0].startswith("Exec") and "stealtime protect" in line for line, _ in other)


def test_lintian_has_nothing_to_say(agent_deb: Path, replicator_deb: Path) -> None:
    said = run(
        "lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit=0", agent_deb, replicator_deb
    )
    assert not [line for line in said.splitlines() if line[:2] in ("E:", "W:")]
