"""``stealtime protect recover``: what can be had again after a power cut of both hosts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError, weightiest

if TYPE_CHECKING:
    from stealtime.protect.state import State


def recover(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[VM.toml]...", help="The machines.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All machines of /etc/stealtime/vms.")] = False,
    boot: Annotated[bool, typer.Option("--boot", help="Boot anew what is gone, and start what nobody holds.")] = False,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="This host's name in the register.  [default: its hostname]"),
    ] = None,
) -> None:
    """Tell what became of machines whose hosts went down together, and boot anew what is gone.

    The register says who had a machine last, and the daemons of those hosts whether their members live. A guest's
    memory ends with its member, so that a machine of which nobody lives is gone: without --boot that is only told.
    Nothing is booted while a host that may have the machine's state cannot be asked.

    Exit codes: 0 all machines run or were booted; 1 of one it cannot be said, or its boot failed; 2 wrong usage; 3 one
    is gone, or held by nobody, and was not booted.
    """
    from stealtime.protect.recovery import MACHINES
    from stealtime.protect.state import default_state, this_host

    if every == bool(files):
        raise UsageError("name machines, or --all", hint="stealtime protect recover VM.toml, or --all")
    chosen = sorted(MACHINES.glob("*.toml")) if every else list(files or ())
    if not chosen:
        raise UsageError(f"there is no machine in {MACHINES}", hint="name the files of the machines")
    state, name = default_state(), host or this_host()
    codes = [_recover(file, state, name, boot=boot) for file in chosen]
    raise typer.Exit(weightiest(*codes))


def _recover(file: Path, state: "State", host: str, *, boot: bool) -> ExitCode:
    from stealtime.cli.output import message_console, tell_error
    from stealtime.protect import session
    from stealtime.protect.recovery import account_of
    from stealtime.protect.vm_file import read_vm_file

    def say(text: str) -> None:
        message_console().print(text, markup=False, soft_wrap=True)

    try:
        vm = read_vm_file(file)
        if state.host(host).member(vm.name).lives():
            say(f"{vm.name}: it has a member here; see `stealtime protect status {vm.name}`")
            return ExitCode.FINE
        account = account_of(vm, state, host)
        if not boot or account.verdict not in ("gone", "vacant"):
            say(account.words(file))
            return {"lives": ExitCode.FINE, "unknown": ExitCode.FAILED}.get(account.verdict, ExitCode.THRESHOLD)
        folder, _ = session.start(vm, state, host, is_local=False, force=account.verdict == "gone")
    except StealtimeError as error:
        tell_error(error.message, error.hint)
        return error.exit_code
    say(f"{vm.name}: booted anew on {host}; its log: {folder.log}")
    return ExitCode.FINE
