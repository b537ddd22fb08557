"""The files of a run by name, and how a JSON document among them is read."""

import json
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from stealtime.store.model import SCHEMA_VERSION
from stealtime.store.upgrade import upgrade
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Model

MANIFEST = "manifest.json"
CELLS = "cells"
TRIAL = "trial.json"
HOST_TRACE = "host_trace.parquet"
MACHINE_TRACE = "machine_trace.parquet"
NEIGHBOURS = "neighbours.parquet"
COUNTS = "counts.parquet"
LONGEST = "longest.parquet"
ENVELOPE = "envelope.parquet"
ELSEWHERE = "elsewhere.json"
PARTIAL_PREFIX = ".partial-"

_Document = TypeVar("_Document", bound=Model)


def read_document(path: Path, model: type[_Document], hint: str) -> _Document:
    """Read one JSON document of a run.

    Raises:
        StealtimeError: It is missing, damaged, or of a newer version; the message names the file.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StealtimeError(f"{path} cannot be read: {error.strerror}", hint=hint) from error
    try:
        document = json.loads(content)
    except ValueError as error:
        raise StealtimeError(f"{path} is damaged: {error}", hint=hint) from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise StealtimeError(
            f"{path} has schema version {version}; this stealtime reads up to {SCHEMA_VERSION}",
            hint="read it with the stealtime that wrote it, or a newer one",
        )
    try:
        return model.model_validate(upgrade(document) if isinstance(document, dict) else document)
    except ValidationError as error:
        raise damaged(path, "", error, hint) from error


def damaged(path: Path, part: str, error: ValidationError, hint: str) -> StealtimeError:
    first = error.errors()[0]
    where = ".".join([part, *map(str, first["loc"])]).strip(".") or "the whole document"
    return StealtimeError(f"{path} is damaged: {where}: {first['msg']}", hint=hint)
