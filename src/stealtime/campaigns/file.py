"""Reading a campaign from TOML, with errors that name the file, the line, the key and what was expected."""

import logging
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stealtime.campaigns.model import Campaign
from stealtime.campaigns.registry import probes, studies
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.toml_errors import explain, nearest, parse

logger = logging.getLogger(__name__)

_SCHEMA_HINT = "`stealtime schema campaign` shows what each key takes"


def builtin_names() -> list[str]:
    """List the campaigns that come with the studies."""
    return sorted(_builtin())


def _builtin() -> dict[str, Traversable]:
    entries = [entry for study in studies() for entry in study.campaigns.iterdir()]
    return {entry.name.removesuffix(".toml"): entry for entry in entries if entry.name.endswith(".toml")}


def find_campaign(name: str) -> Campaign:
    """Read a builtin campaign by its name, or a campaign file by its path.

    Raises:
        UsageError: There is none, or it is wrong; the message says where.
    """
    path = Path(name)
    if not path.is_file() and (builtin := _builtin().get(name)) is not None:
        return read_campaign(builtin.read_text("utf-8"), f"builtin campaign {name}")
    try:
        return read_campaign(path.read_text("utf-8-sig"), str(path))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
        close = nearest(name, builtin_names())
        raise UsageError(
            f"there is no campaign {name!r}: neither a builtin one nor a file",
            hint=f"did you mean {close!r}?" if close else f"builtin: {', '.join(builtin_names())}; or give a TOML file",
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not a campaign: it is not UTF-8 text", hint="campaigns are TOML files") from error
    except OSError as error:
        message = f"the campaign {path} cannot be read: {error.strerror}"
        raise UsageError(message, hint="check its name, and that you may read it") from error


def read_campaign(text: str, source: str) -> Campaign:
    """Read a campaign from the text of a TOML file.

    Args:
        text: TOML.
        source: The name of the file, for messages.

    Raises:
        UsageError: It is not TOML or not a campaign.
    """
    document = _with_new_names(parse(text, source), source)
    try:
        return Campaign.model_validate(document)
    except ValidationError as error:
        raise explain(error, document, text, source, Campaign, _SCHEMA_HINT) from error


def _with_new_names(document: dict[str, Any], source: str) -> dict[str, Any]:
    """Give a document in which keys of earlier versions are called what they are now; a hint tells of each."""
    renamed, hints = dict(document), set[str]()
    if isinstance(tables := document.get("probes"), list):
        renamed["probes"] = [_renamed(one, one.get("probe"), hints) if isinstance(one, dict) else one for one in tables]
    if isinstance(short := document.get("short"), dict):
        renamed["short"] = {
            key: _renamed(one, key, hints) if isinstance(one, dict) else one for key, one in short.items()
        }
    for hint in sorted(hints):
        logger.warning("hint: %s: %s", source, hint)
    return renamed


def _renamed(table: dict[str, Any], name: object, hints: set[str]) -> dict[str, Any]:
    probe = probes().get(str(name))
    old_names = {} if probe is None else {old: new for old, new in probe.cells.renamed.items() if old in table}
    hints |= {f"the key `{old}` of the probe {name} is called `{new}` now" for old, new in old_names.items()}
    return {old_names.get(key, key): value for key, value in table.items()}
