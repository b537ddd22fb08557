"""``stealtime fleet``: a campaign on many hosts, by a Dask scheduler that the site runs."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli import commands, completion
from stealtime.cli.option_groups import OptionGroup, grouped
from stealtime.cli.parameters import AsJson
from stealtime.cli.run import Changes, OfProbes, overrides_of
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

if TYPE_CHECKING:
    from stealtime.fleet.record import FleetFolder
    from stealtime.fleet.site import Site

SHORT = "Measure a campaign on many hosts"
_INSTALL_HINT = "install it with its extra: pip install 'stealtime[fleet]'"


def application() -> typer.Typer:
    group = typer.Typer(help=f"{SHORT}, by a scheduler and workers of Dask that the site runs.", no_args_is_help=True)
    commands.add(group, run)
    group.command(hidden=True)(carry)
    return group


class OfSite(OptionGroup):
    """Where the scheduler is, and what proves who we are."""

    def __init__(
        self,
        scheduler: Annotated[
            str | None,
            typer.Option(metavar="ADDRESS", help="The site's scheduler: tls://HOST:8786; tcp:// only on loopback."),
        ] = None,
        tls_ca_file: Annotated[
            Path | None, typer.Option("--tls-ca-file", metavar="FILE", help="Certificate of the site's authority.")
        ] = None,
        tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Our certificate.")] = None,
        tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")] = None,
    ) -> None:
        self.scheduler = scheduler
        self.files = (tls_ca_file, tls_cert, tls_key)


@grouped
def run(
    campaign: Annotated[
        str | None,
        typer.Argument(
            metavar="CAMPAIGN", help="A builtin campaign or a TOML file.", autocompletion=completion.campaigns
        ),
    ] = None,
    *,
    of_site: OfSite,
    split: Annotated[
        bool, typer.Option("--split", help="Give each host a part of the cells, instead of all of them.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="Where what arrives is kept.  [default: a new one in $XDG_DATA_HOME/stealtime/fleets]",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Go on with this fleet run: what hosts still owe, if they are there."),
    ] = None,
    changes: Changes,
    of_probes: OfProbes,
    json: AsJson = False,
) -> None:
    """Measure CAMPAIGN on each host that has a worker at the site's scheduler, and collect what they found.

    Samples stay with the hosts; counts of all durations, the longest samples and all else come here as soon as a trial
    is whole.

        stealtime fleet run quick --scheduler tls://controller:8786 -o fleet

        stealtime fleet run --resume fleet

        stealtime merge fleet/runs/* -o whole

    Exit codes: 0 every host measured all that it was to; 1 no host could be used, the scheduler went away, or it was
    interrupted (what has arrived is kept); 2 wrong usage; 4 a host was lost or refused, or owes something.
    """
    _need_dask()
    from stealtime.fleet.record import FleetFolder

    if resume is not None:
        if campaign is not None or output is not None:
            raise UsageError("--resume goes on with what was begun", hint="leave CAMPAIGN and -o out")
        folder = FleetFolder.open(resume.absolute())
    else:
        if campaign is None:
            raise UsageError("CAMPAIGN is missing", hint="name a builtin one, such as quick, or a TOML file")
        folder = _new(campaign, of_site.scheduler, output, changes, of_probes, split=split)
    code = _carry_on(folder, _site(of_site, folder), is_new=resume is None)
    _conclude(folder, as_json=json)
    raise typer.Exit(code)


def carry() -> None:
    """Measure what the worker says on standard input; only workers start this."""
    from stealtime.fleet.carrying import carry as carry_out
    from stealtime.fleet.carrying import own_output

    with own_output() as target:
        code = carry_out(sys.stdin.buffer, target)
    raise typer.Exit(code)


def _need_dask() -> None:
    try:
        import distributed  # noqa: F401 - only whether it is there
    except ImportError:
        raise StealtimeError("`stealtime fleet` needs Dask, which is not installed", hint=_INSTALL_HINT) from None


def _site(of_site: OfSite, folder: "FleetFolder") -> "Site":
    from stealtime.fleet.site import Site
    from stealtime.fleet.transport import Credentials

    return Site(of_site.scheduler or folder.record.scheduler, Credentials(*of_site.files))


def _new(
    name: str, scheduler: str | None, output: Path | None, changes: Changes, of_probes: OfProbes, *, split: bool
) -> "FleetFolder":
    from datetime import UTC, datetime

    import stealtime
    from stealtime.campaigns.file import find_campaign
    from stealtime.campaigns.overrides import apply_overrides
    from stealtime.fleet.record import FleetFolder, FleetRecord, default_fleets_folder, new_fleet_id
    from stealtime.fleet.transport import check_address

    if scheduler is None:
        raise UsageError("--scheduler is missing", hint="give the address of the site's scheduler: tls://HOST:8786")
    if changes.loop_of is not None:
        raise UsageError("--loop-of is about one host", hint="leave it out: each host calibrates its own busy loop")
    check_address(scheduler)
    overrides = overrides_of(changes, of_probes)
    campaign = apply_overrides(find_campaign(name), overrides)
    fleet_id = new_fleet_id(campaign.name)
    record = FleetRecord(
        fleet_id=fleet_id,
        created_at=datetime.now(UTC),
        stealtime_version=stealtime.__version__,
        scheduler=scheduler,
        is_split=split,
        campaign=campaign.document(),
        measured_cpu=_cpu(changes.cpu),
        named_scenarios=overrides.scenarios,
        is_kernel_named=overrides.kernel is not None,
    )
    return FleetFolder.create((output or default_fleets_folder() / fleet_id).absolute(), record)


def _cpu(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal():
        raise UsageError(f"--cpu {text} is no number of a CPU", hint="name one that all hosts have, such as -a 1")
    return int(text)


def _carry_on(folder: "FleetFolder", site: "Site", *, is_new: bool) -> ExitCode:
    """Measure; gives the exit code. What has arrived is kept, whatever ends it."""
    from stealtime.cli.output import tell_error

    try:
        asyncio.run(_measure(folder, site, is_new=is_new))
    except (KeyboardInterrupt, asyncio.CancelledError):
        tell_error("interrupted; what has arrived is kept", _go_on(folder))
        return ExitCode.FAILED
    except StealtimeError as error:
        if not folder.record.hosts:
            _forget(folder)
            raise
        tell_error(error.message, error.hint)
        return error.exit_code
    return ExitCode.FINE if folder.record.is_whole else ExitCode.NOT_JUDGED


async def _measure(folder: "FleetFolder", site: "Site", *, is_new: bool) -> None:
    from stealtime.cli.output import message_console
    from stealtime.fleet.controller import begin, carry_on
    from stealtime.fleet.screen import show_fleet

    if is_new:
        await begin(site, folder)
    with show_fleet(message_console(), folder.record.hosts) as screen:
        await carry_on(site, folder, screen)


def _forget(folder: "FleetFolder") -> None:
    """Remove a fleet run of which there is nothing, since no host was found: what was made here, and nothing else."""
    import contextlib

    from stealtime.fleet.record import FLEET, RUNS

    with contextlib.suppress(OSError):
        (folder.folder / FLEET).unlink(missing_ok=True)
        (folder.folder / RUNS).rmdir()
        folder.folder.rmdir()


def _go_on(folder: "FleetFolder") -> str:
    return f"go on with `stealtime fleet run --resume {folder.folder}`"


def _conclude(folder: "FleetFolder", *, as_json: bool) -> None:
    from stealtime.cli.output import data_console, message_console, print_document
    from stealtime.fleet.screen import host_table

    record = folder.record
    for host in record.hosts:
        if host.hint is not None:
            message_console().print(f"hint for {host.name}: {host.hint}", soft_wrap=True)
    if as_json:
        print_document(record)
        return
    console = data_console()
    console.print(host_table(record.hosts))
    console.print(f"\nfleet   {folder.folder}", soft_wrap=True)
    if not record.is_whole:
        console.print(f"hint: {_go_on(folder)}", soft_wrap=True)
