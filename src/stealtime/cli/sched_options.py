"""What several commands of ``stealtime sched`` ask for."""

from enum import StrEnum
from typing import Annotated

import typer

from stealtime.cli import completion


class Policy(StrEnum):
    """Who runs next."""

    FIXED_PRIORITY = "fixed-priority"
    EDF = "edf"


Machine = Annotated[
    str | None,
    typer.Option("--machine", metavar="NAME", help="Take this machine of a run, such as native."),
]
OfSamples = Annotated[
    str | None,
    typer.Option("--statistic", help="Statistic of a run's samples: average, p99, p99.9 or worst.  [default: worst]"),
]
OfHost = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="here|lifted",
        help="Whose RT throttling and fair server are taken off the supply: those of this host's kernel (here), or "
        "none, as both are lifted where the tasks run (lifted).  [default: of the machine of a run's overheads]",
    ),
]
OfKernel = Annotated[
    str | None,
    typer.Option(
        "--overheads",
        metavar="FILE|RUN",
        help="The kernel's overheads: CSV with the columns of SchedCAT, TOML, or a run that measured them.  "
        "[default: nothing]",
        autocompletion=completion.runs,
    ),
]
OfInterference = Annotated[
    bool,
    typer.Option(
        "--interference/--no-interference",
        help="Charge device interrupts, softirqs and real-time threads of others as the overheads' run saw them; else "
        "they are only named.",
    ),
]
OfFile = Annotated[
    Policy | None,
    typer.Option("--policy", help="Scheduling policy.  [default: the file's, else fixed-priority]"),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Of TASKS: toml, sheet, lime, rt-app, schedcat, cheddar or simso.  [default: as its content shows]",
    ),
]
Unit = Annotated[
    str | None,
    typer.Option("--unit", metavar="UNIT", help="Of times without one in a CSV, SchedCAT or Cheddar: ns, us, ms, s."),
]
