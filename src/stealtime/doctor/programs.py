"""The programs that stealtime drives, from the same table that ``make setup`` installs from."""

from dataclasses import dataclass
from importlib.resources import files as package_files

from stealtime.doctor.attempts import Attempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Finding, Group, Subject

RUN_PROGRAMS = Subject(
    "programs",
    Group.STORAGE,
    "programs to measure with",
    "Without them the platforms that they boot are missing from a run.",
)
DEVELOPMENT_PROGRAMS = Subject(
    "development_programs",
    Group.STORAGE,
    "programs for development",
    "Building, testing and benchmarking stealtime itself needs them; measuring does not.",
)


@dataclass(frozen=True)
class RequiredPackage:
    """One line of the table."""

    ring: str
    """``python``, ``build``, ``run``, ``test``, ``bench`` or ``packages``."""
    test: str
    """A program, or a path (maybe with ``*``) that must exist."""
    package: str
    """The Debian package that brings it."""
    purpose: str


def required_packages() -> list[RequiredPackage]:
    text = package_files("stealtime.doctor").joinpath("debian_packages.txt").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [RequiredPackage(*(cell.strip() for cell in line.split("|"))) for line in lines]


def run_programs(files: Files, attempts: Attempts) -> Finding:
    """Whether all programs that a run may need are here."""
    missing = [package for package in _missing(files, attempts) if package.ring == "run"]
    if not missing:
        return RUN_PROGRAMS.ok("all there", [])
    text = "; ".join(f"{package.test} is missing ({package.purpose})" for package in missing)
    return RUN_PROGRAMS.limits(text, [package.test for package in missing], _install(missing))


def development_programs(files: Files, attempts: Attempts) -> Finding:
    """Whether the programs to build, test and benchmark are here; that they are not is no fault."""
    missing = [package for package in _missing(files, attempts) if package.ring in ("build", "test", "bench")]
    names = [package.test for package in missing]
    if not missing:
        return DEVELOPMENT_PROGRAMS.ok("all there", [])
    return DEVELOPMENT_PROGRAMS.ok(f"missing: {', '.join(names)} ({_install(missing)})", names)


def _missing(files: Files, attempts: Attempts) -> list[RequiredPackage]:
    def is_there(package: RequiredPackage) -> bool:
        if package.test.startswith("/"):
            return bool(files.matching(package.test))
        return attempts.program(package.test) is not None

    return [package for package in required_packages() if not is_there(package)]


def _install(missing: list[RequiredPackage]) -> str:
    return f"apt-get install --no-install-recommends {' '.join(sorted({package.package for package in missing}))}"
