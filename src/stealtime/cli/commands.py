"""Adds commands to a group, each with a line for the group's help that is not cut in the middle."""

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand


def add(
    group: typer.Typer,
    *commands: Callable[..., None],
    shown_as: type[TyperCommand] | None = None,
    takes_a_command: bool = False,
) -> None:
    """Add commands, in the order in which the help lists them.

    Args:
        group: Where they belong.
        commands: Their functions; the docstring is the help.
        shown_as: What writes their help, where that is more than the docstring and the options.
        takes_a_command: From the first argument on everything is another program's, options too.
    """
    for command in commands:
        settings = {"allow_interspersed_args": False} if takes_a_command else None
        group.command(cls=shown_as, short_help=in_short(command), context_settings=settings)(command)


def in_short(described: Callable[..., Any]) -> str:
    """Give the first sentence of a docstring, up to a colon: what follows it says more of the same."""
    first = " ".join((inspect.getdoc(described) or "").partition("\n\n")[0].split())
    return first.partition(":")[0].partition(". ")[0].rstrip(".")
