"""``stealtime merge``: the runs of several hosts as one."""

from pathlib import Path
from typing import Annotated

import typer

from stealtime.cli import completion
from stealtime.cli.parameters import AsJson, RunsFolder


def merge(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="The runs of the hosts.", autocompletion=completion.runs),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Where the merged run is written.", show_default=False),
    ],
    samples: Annotated[
        str,
        typer.Option(
            metavar="stay|here|URL",
            help="Note where the samples are, link or copy them, or put them into a place by their hash (s3://...).",
        ),
    ] = "stay",
    runs_folder: RunsFolder = None,
    json: AsJson = False,
) -> None:
    """Merge the runs of several hosts into one: the shards of a campaign, or the same campaign on each host.

    Durations are counted in integers, so that the percentiles of the whole are exact. `stealtime show FOLDER` shows the
    hosts together and the range over them. The runs stay as they are.

    Exit codes: 0 all of it is there; 4 something is missing, double, doubtful or left out, which is said; 2 there is
    nothing to merge; 1 it cannot be written.
    """
    from stealtime.cli.output import message_console, print_document, print_line
    from stealtime.merging.merging import merge as merge_runs
    from stealtime.store.run import Run, find_run
    from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

    found: list[Run] = []
    remarks: list[str] = []
    for name in runs:
        try:
            found.append(find_run(name, runs_folder))
        except UsageError:
            raise
        except StealtimeError as error:
            remarks.append(f"{name} is left out: {error.message}")
    if not found:
        raise UsageError("there is no run that can be merged", hint="; ".join(remarks))
    with message_console().status(f"merging {len(found)} runs"):
        merged = merge_runs(found, output.absolute(), samples, remarks)
    for remark in merged.remarks:
        message_console().print(remark, style="yellow", markup=False, soft_wrap=True)
    if json:
        print_document(
            {
                "schema_version": 1,
                "path": str(merged.folder),
                "run_id": merged.manifest.run_id,
                "hosts": list(merged.manifest.hosts),
                "trials": sum(part.trials for part in merged.manifest.merged.parts) if merged.manifest.merged else 0,
                "remarks": list(merged.remarks),
            }
        )
    else:
        print_line(str(merged.folder))
    raise typer.Exit(ExitCode.NOT_JUDGED if merged.remarks else ExitCode.FINE)
