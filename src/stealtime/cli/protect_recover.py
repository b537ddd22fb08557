"""``stealtime protect recover``: what can be had again after a power cut of both hosts."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stealtime.cli.parameters import AsJson
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError, weightiest

if TYPE_CHECKING:
    from stealtime.protect.recovery import Recovered
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
    json: AsJson = False,
) -> None:
    """Tell what became of machines whose hosts went down together, and boot anew what is gone.

    The register says who had a machine last. The daemons of all its hosts say whether a member lives, whether or not
    the register names them. A guest's memory ends with its member, so a machine without a living member is gone.
    Without --boot that is only reported. Nothing is booted while a host of the machine cannot be asked.

    Exit codes: 0 all machines run or were booted; 1 of one it cannot be said, or its boot failed; 2 wrong usage; 3 one
    is gone, or held by nobody, and was not booted.
    """
    from stealtime.cli.output import message_console, print_document, tell_error
    from stealtime.protect.recovery import MACHINES, RecoveryDocument
    from stealtime.protect.state import default_state, this_host

    if every == bool(files):
        raise UsageError("name machines, or --all", hint="stealtime protect recover VM.toml, or --all")
    chosen = sorted(MACHINES.glob("*.toml")) if every else list(files or ())
    if not chosen:
        raise UsageError(f"there is no machine in {MACHINES}", hint="name the files of the machines")
    state, name = default_state(), host or this_host()
    machines, codes = [], []
    for file in chosen:
        try:
            told, code = _recover(file, state, name, boot=boot)
            message_console().print(told.text, markup=False, soft_wrap=True)
        except StealtimeError as error:
            tell_error(error.message, error.hint)
            told, code = _failed(file, error), error.exit_code
        machines.append(told)
        codes.append(code)
    if json:
        print_document(RecoveryDocument(machines=tuple(machines)))
    raise typer.Exit(weightiest(*codes))


def _failed(file: Path, error: StealtimeError) -> "Recovered":
    from stealtime.protect.recovery import Recovered

    return Recovered(file=str(file), vm=None, is_here=False, account=None, is_booted=False, text=error.message)


def _recover(file: Path, state: "State", host: str, *, boot: bool) -> "tuple[Recovered, ExitCode]":
    from stealtime.protect import session
    from stealtime.protect.recovery import Recovered, account_of
    from stealtime.protect.vm_file import read_vm_file

    vm = read_vm_file(file)
    told = Recovered(file=str(file), vm=vm.name, is_here=False, account=None, is_booted=False, text="")
    if state.host(host).member(vm.name).lives():
        text = f"{vm.name}: it has a member here; see `stealtime protect status {vm.name}`"
        return told.model_copy(update={"is_here": True, "text": text}), ExitCode.FINE
    account = account_of(vm, state, host)
    told = told.model_copy(update={"account": account, "text": account.words(file)})
    if not boot or account.verdict not in ("gone", "vacant"):
        code = {"lives": ExitCode.FINE, "unknown": ExitCode.FAILED}.get(account.verdict, ExitCode.THRESHOLD)
        return told, code
    folder, _ = session.start(vm, state, host, is_local=False, force=account.verdict == "gone", only_current_disks=True)
    text = f"{vm.name}: booted anew on {host}; its log: {folder.log}"
    return told.model_copy(update={"is_booted": True, "text": text}), ExitCode.FINE
