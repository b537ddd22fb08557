"""The JSON Schemas of what commands print with ``--json``: made from the models, and kept in the repository.

``python -m stealtime.schemas`` writes them anew; tests see that they are current.
"""

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from stealtime.analysis import model, published_model
from stealtime.doctor import document
from stealtime.protect import status


@dataclass(frozen=True)
class JsonDocument:
    """One of the documents."""

    name: str
    """Of its file, ``show`` for ``show.schema.json``."""
    package: str
    """Where the file is."""
    model: type[BaseModel]
    version: int
    command: str | None = None
    """What prints it; None leaves the title to the model."""

    @property
    def file(self) -> Path:
        """The schema in the repository."""
        return Path(str(resources.files(self.package) / f"{self.name}.schema.json"))

    def schema(self) -> dict[str, Any]:
        """Make the schema from the model."""
        title = {} if self.command is None else {"title": self.command}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": f"https://stealtime.invalid/{self.name}.schema.{self.version}.json",
            **self.model.model_json_schema(mode="serialization"),
            **title,
        }


SHOW = JsonDocument(
    "show", "stealtime.analysis", model.RunSummary, model.SCHEMA_VERSION, command="stealtime show --json"
)
PUBLISHED = JsonDocument(
    "published",
    "stealtime.analysis",
    published_model.PublishedComparison,
    published_model.SCHEMA_VERSION,
    command="stealtime compare --published --json",
)
DOCTOR = JsonDocument("doctor", "stealtime.doctor", document.DoctorDocument, document.SCHEMA_VERSION)
PROTECTION = JsonDocument(
    "status",
    "stealtime.protect",
    status.StatusDocument,
    status.SCHEMA_VERSION,
    command="stealtime protect status --json",
)


if __name__ == "__main__":
    for one in (SHOW, PUBLISHED, DOCTOR, PROTECTION):
        one.file.write_text(json.dumps(one.schema(), indent=2) + "\n", "utf-8")
