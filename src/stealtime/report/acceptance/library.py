"""Finds bars: those that come with stealtime by name, those of a user by file."""

from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from stealtime.report.acceptance.model import BarFile
from stealtime.report.studies import studies
from stealtime.vocabulary import toml_errors
from stealtime.vocabulary.errors import UsageError

_HINT = "`stealtime schema bars` prints what a file of bars may hold"


def bar_names() -> list[str]:
    folder = resources.files("stealtime.report.acceptance") / "bars"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def known_quantities() -> dict[str, str]:
    """Give every quantity that a study measures, and what it is."""
    return {name: words for study in studies() for name, words in study.figures.quantities.items()}


def find_bars(name: str) -> BarFile:
    """Read bars by name, or from a file whose name ends with ``.toml``.

    Raises:
        UsageError: There are none of that name, or the file is none; the message names line and key.
    """
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise UsageError(f"{name} holds no bars: it is not UTF-8 text", hint=_HINT) from None
        except OSError as error:
            raise UsageError(
                f"the file of bars {name} cannot be read: {error.strerror}",
                hint=f"check its name; builtin are: {', '.join(bar_names())}",
            ) from error
        return read_bars(text, name)
    names = bar_names()
    if name not in names:
        close = get_close_matches(name.lower(), names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}, or give a .toml file"
        raise UsageError(f"there are no bars named {name!r}", hint=hint)
    text = (resources.files("stealtime.report.acceptance") / "bars" / f"{name}.toml").read_text("utf-8")
    return read_bars(text, name)


def read_bars(text: str, source: str) -> BarFile:
    """Read bars from TOML.

    Raises:
        UsageError: See :func:`find_bars`.
    """
    document = toml_errors.parse(text, source)
    try:
        bars = BarFile.model_validate(document)
    except ValidationError as error:
        raise toml_errors.explain(error, document, text, source, BarFile, _HINT) from None
    known = known_quantities()
    for bar in bars.bars:
        if bar.quantity not in known:
            close = toml_errors.nearest(bar.quantity, known)
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(known)}"
            raise UsageError(f"{source}: no study measures {bar.quantity!r}", hint=hint)
    return bars
