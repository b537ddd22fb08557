"""Holds documents that commands print against their schemas. A schema itself is checked once: that takes longest."""

from functools import cache
from typing import Any

import jsonschema

from stealtime.schemas import DOCUMENTS


def hold_against_schema(document: Any, name: str) -> None:
    """Check a document against the schema that ``stealtime schema NAME`` prints.

    Raises:
        jsonschema.ValidationError: It is another document.
    """
    _validator(name).validate(document)


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    schema = DOCUMENTS[name].schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
