"""``stealtime doctor``: what this machine can do, what limits its results, and how to fix that."""

import asyncio
from typing import Annotated

import typer


def doctor(
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout instead.")] = False,
) -> None:
    """Check what this machine can do: what limits its results, and how to fix that.

    Each platform is tested by booting a tiny guest on it, which takes a few seconds. Nothing is changed.
    Without root it also lists what works without, and what does not.

    Exit codes: 0 the main task is possible (native real-time measurements, and at least one guest to compare with),
    even if limited; 4 something blocks it.
    """
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.doctor.attempts import RealAttempts
    from stealtime.doctor.document import exit_code, make_document
    from stealtime.doctor.files import Files
    from stealtime.doctor.findings import examine
    from stealtime.doctor.rights import examine_rights
    from stealtime.doctor.table import FindingsTable
    from stealtime.lab.platforms import registry

    with message_console().status("reading") as status:
        findings = asyncio.run(
            examine(registry.all_platforms(), on_platform=lambda name: status.update(f"testing {name} by booting it"))
        )
    document = make_document(findings, examine_rights(Files(), RealAttempts()))
    if json:
        print_document(document)
    else:
        data_console().print(FindingsTable(document))
    raise typer.Exit(exit_code(document))
