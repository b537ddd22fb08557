"""``stealtime protect upgrade``: replace stealtime or QEMU on a host while its machines go on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError


def upgrade(
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- COMMAND...", help="Installs the new version.", show_default=False),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an upgrade whose command has run: restart, and come back.")
    ] = False,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="NAME", help="The host, where this machine has the daemons of several."),
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="How long each step of a machine may take.")
    ] = "100s",
) -> None:
    """Upgrade stealtime or QEMU on this host while its machines go on elsewhere, one host after the other.

    All machines that run here move to their standbys. COMMAND runs, and the daemon is restarted. Machines that stand by
    here get new standbys, one after the other; each resumes its machine for trial. Then what has left comes back.
    The other host may be of the release before, or of the one after. A COMMAND that reboots this host loses the note of
    what is to come back: call each machine then with `stealtime protect failover VM`.

    For example: stealtime protect upgrade -- apt-get install --only-upgrade stealtime qemu-system-x86

    Exit codes: 0 all is back; 1 it was given up, and the machines are where they can run; 3 a machine is not back, or
    not protected.
    """
    from stealtime.cli.output import message_console
    from stealtime.cli.parameters import duration_of
    from stealtime.protect.state import default_state
    from stealtime.protect.upgrade import begin, complete, host_to_upgrade

    def say(text: str) -> None:
        message_console().print(text, markup=False, soft_wrap=True)

    if bool(command) == resume:
        raise UsageError(
            "name the command that installs the new version, or --resume",
            hint="stealtime protect upgrade -- apt-get install --only-upgrade stealtime",
        )
    within_s = (duration_of("--timeout", timeout) or 0) / 1e9
    folder = host_to_upgrade(default_state(), host)
    if command:
        if shutil.which(command[0]) is None:
            raise UsageError(f"there is no program {command[0]!r}", hint="nothing was changed")
        begin(folder, within_s, say)
        try:
            ended = f"ended with {code}" if (code := subprocess.run(command, check=False).returncode) else None
        except OSError as error:
            ended = f"cannot be run: {error.strerror}"
        if ended is not None:
            raise StealtimeError(
                f"{command[0]} {ended}; the machines go on elsewhere",
                hint="correct it and call the same again, or let them come back: stealtime protect upgrade --resume",
            )
        # What is installed now goes on: this process is of what was.
        program = str(Path(sys.executable).parent / "stealtime")
        again = [program, "protect", "upgrade", "--resume", "--host", folder.host, "--timeout", timeout]
        os.execv(program, again)  # noqa: S606 - no shell is wanted
    not_back = complete(folder, within_s, say)
    for sentence in not_back:
        message_console().print(sentence, style="yellow", markup=False, soft_wrap=True)
    raise typer.Exit(ExitCode.THRESHOLD if not_back else ExitCode.FINE)
