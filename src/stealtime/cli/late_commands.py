"""The commands of ``stealtime``, each loaded when it is asked for: nobody waits for the others or holds them in memory.

Names are known without their files, which is all that a command line, a completion of other words or a misspelt name
needs. The help of ``stealtime`` itself loads them all, for their first sentences.
"""

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import cast

import typer
from typer._click import Command
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from stealtime.cli import commands, listing

_COMMANDS = (
    "doctor",
    "check",
    "run",
    "ls",
    "show",
    "report",
    "compare",
    "merge",
    "site",
    "query",
    "export",
    "advise",
    "watch",
    "blackout",
    "schema",
)
"""Each a function of that name, in the order in which the help lists them."""
GROUPS = ("protect", "sched", "fleet")
"""Each a file that builds its group and has a line for the help."""
_FILES = {"query": "site"}
"""Of commands that have none of their own name."""
_SHOWN_AS: dict[str, type[TyperCommand]] = {"run": listing.WithCampaigns, "compare": listing.WithPublished}


class LateCommands(MutableMapping[str, Command]):
    """What :class:`typer.core.TyperGroup` holds its commands in, with all of them in it from the beginning."""

    def __init__(self) -> None:
        self._loaded: dict[str, Command | None] = dict.fromkeys((*_COMMANDS, *GROUPS))

    def __getitem__(self, name: str) -> Command:
        command = self._loaded[name]
        if command is None:
            command = self._loaded[name] = _load(name)
        return command

    def __setitem__(self, name: str, command: Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)


def _load(name: str) -> Command:
    """Build a command as typer does in a group, which hands its settings down."""
    group = typer.Typer(add_completion=False, rich_markup_mode=None)
    group.callback()(_of_no_account)
    file = import_module(f"stealtime.cli.{_FILES.get(name, name)}")
    if name in GROUPS:
        group.add_typer(file.application(), name=name, short_help=file.SHORT)
    else:
        commands.add(group, getattr(file, name), shown_as=_SHOWN_AS.get(name))
    return cast("TyperGroup", get_command(group)).commands[name]


def _of_no_account() -> None:
    """Make a group of a single command."""
