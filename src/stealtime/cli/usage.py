"""What the parser says of a wrong command line, as one sentence with the value that was wrong, and a hint."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

import typer
from pydantic import ValidationError

from stealtime.vocabulary.plain_errors import plain_message

_OF_NUMBERS = ("int_parsing", "int_from_float", "float_parsing", "finite_number")
"""Errors of pydantic that its validators of options raise, in words that are no user's."""
_ALIKE = 0.6
"""As :func:`difflib.get_close_matches` has it."""
_EXTRA = re.compile(r"^Got unexpected extra arguments?(?:\(s\))? \((.*)\)$", re.DOTALL)


def usage_message(error: typer.TyperException) -> str:
    """Say what is wrong, as part of a sentence: ``No such option: --foo`` becomes ``no such option: --foo``."""
    parameter = getattr(error, "param", None)
    if parameter is not None and isinstance(error.__cause__, ValidationError):
        first = error.__cause__.errors()[0]
    else:
        first = None
    if first is not None and first["type"] in _OF_NUMBERS:
        return f"{_name_of(parameter)}: {first['input']!r} is wrong, {plain_message(first)}"
    if parameter is not None and type(error).__name__ == "MissingParameter":
        return f"missing {parameter.param_type_name} {_name_of(parameter)!r}"
    if (extra := _EXTRA.match(error.message)) is not None:
        return f"unexpected argument {extra[1]!r}"
    # An option that is not known says by itself what may have been meant; that is the hint's part.
    if getattr(error, "possibilities", None):
        text = error.message
    else:
        # Not in the base class of all releases, but all that the parser raises have it.
        text = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    text = text.replace("Value error, ", "")
    return text[:1].lower() + text[1:].rstrip(".")


def _alike(wrong: str, option: str) -> bool:
    """Whether an option may have been meant; the parser also counts the dashes in front, which all have."""
    return SequenceMatcher(None, wrong.lstrip("-"), option.lstrip("-")).ratio() >= _ALIKE


def usage_hint(error: typer.TyperException, arguments: Sequence[str], groups: Sequence[str]) -> str:
    """Say what to do: what was probably meant, or where all is told.

    Args:
        error: What the parser raised.
        arguments: Of the command line: some errors do not say of which command they are.
        groups: Commands that have commands.
    """
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _command_of(arguments, groups)
    everything = f"see `{path} -h`"
    wrong = getattr(error, "option_name", None)
    possible = sorted(one for one in getattr(error, "possibilities", None) or () if wrong is None or _alike(wrong, one))
    if possible:
        return f"did you mean {' or '.join(possible)}? {everything[:1].upper()}{everything[1:]}"
    parameter = getattr(error, "param", None)
    if parameter is not None and type(error).__name__ == "MissingParameter":
        # A line for each, with tabs.
        choices = str(parameter.get_missing_message(ctx=context) or "").partition("Choose from:")[2].split()
        if choices:
            return f"one of {' '.join(choices)}; {everything}"
    return everything


def _name_of(parameter: object) -> str:
    """Give an option by its long name, an argument as the help shows it."""
    options = [name for name in getattr(parameter, "opts", ()) if name.startswith("--")]
    if options:
        return str(options[0])
    return str(getattr(parameter, "metavar", None) or getattr(parameter, "name", ""))


def _command_of(arguments: Sequence[str], groups: Sequence[str]) -> str:
    words = [*arguments[:2]] if arguments[:1] and arguments[0] in groups else [*arguments[:1]]
    return " ".join(["stealtime", *(word for word in words if not word.startswith("-"))])
