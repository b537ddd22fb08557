"""The JSON Schemas of the files that people write and of what commands print with ``--json``, made from the models.

Those of what commands print are kept in ``tests/golden/schemas``, so that a change of them is seen.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import SchemaSerializer, core_schema

from stealtime.blackout import document as blackout
from stealtime.campaigns.model import Campaign
from stealtime.capacity import document as advice
from stealtime.capacity import fleet
from stealtime.capacity.exporter import history
from stealtime.capacity.rules import RuleBook
from stealtime.check import document as check
from stealtime.doctor import document as doctor
from stealtime.extraction import document as extraction
from stealtime.fleet import record
from stealtime.protect import checking, recovery, status
from stealtime.protect.host_file import HostFile
from stealtime.protect.vm_file import VmFile
from stealtime.report import summary
from stealtime.report.acceptance import document as acceptance
from stealtime.report.acceptance.model import BarFile
from stealtime.report.claims import document as claims
from stealtime.report.claims import statements
from stealtime.report.tails import document as tails
from stealtime.schedulability import document as sched
from stealtime.schedulability.overheads import OverheadFile
from stealtime.schedulability.task_file import TaskFile
from stealtime.schedulability.windows import WindowFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _TomlSchema(GenerateJsonSchema):
    """TOML has no null: a key that may be absent is simply left out. Titles made from keys would say nothing new."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        if schema.get("default") is None:
            return inner
        # As the file says it, "100ms" and not 100000000.
        written = SchemaSerializer(schema["schema"]).to_python(
            schema["default"], mode="json", by_alias=True, exclude_none=True
        )
        return {**inner, "default": written}

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


@dataclass(frozen=True)
class InputFile:
    """A TOML file that a person writes."""

    name: str
    title: str
    model: type[BaseModel]

    def schema(self) -> dict[str, Any]:
        """Make the schema from the model; what only a program can check (two keys that contradict) is not in it."""
        schema = self.model.model_json_schema(mode="validation", schema_generator=_TomlSchema)
        return {"$schema": _DIALECT, **schema, "title": self.title}


@dataclass(frozen=True)
class JsonDocument:
    """One of the documents."""

    name: str
    model: type[BaseModel]
    version: int
    command: str | None = None
    """What prints it; None leaves the title to the model."""

    def schema(self) -> dict[str, Any]:
        """Make the schema from the model."""
        title = {} if self.command is None else {"title": self.command}
        return {
            "$schema": _DIALECT,
            "$id": f"https://stealtime.invalid/{self.name}.schema.{self.version}.json",
            **self.model.model_json_schema(mode="serialization"),
            **title,
        }


DOCUMENTS = {
    one.name: one
    for one in (
        JsonDocument("show", summary.RunSummary, summary.SCHEMA_VERSION, "stealtime show --json"),
        JsonDocument("acceptance", acceptance.Acceptance, acceptance.SCHEMA_VERSION, "stealtime show --accept --json"),
        JsonDocument("tails", tails.Tails, tails.SCHEMA_VERSION, "stealtime show --tails --json"),
        JsonDocument(
            "published", claims.PublishedComparison, claims.SCHEMA_VERSION, "stealtime compare --published --json"
        ),
        JsonDocument(
            "statements",
            statements.StatementsComparison,
            statements.SCHEMA_VERSION,
            "stealtime compare --published --json",
        ),
        JsonDocument("doctor", doctor.DoctorDocument, doctor.SCHEMA_VERSION),
        JsonDocument("advise", advice.AdviceDocument, advice.SCHEMA_VERSION, "stealtime advise --json"),
        JsonDocument("advise-from", fleet.FleetDocument, fleet.SCHEMA_VERSION, "stealtime advise --from --json"),
        JsonDocument(
            "advise-history", history.HistoryDocument, history.SCHEMA_VERSION, "stealtime advise --history --json"
        ),
        JsonDocument("fleet-run", record.FleetRecord, record.SCHEMA_VERSION, "stealtime fleet run --json"),
        JsonDocument("blackout", blackout.WatchDocument, blackout.SCHEMA_VERSION, "stealtime blackout --json"),
        JsonDocument("check", check.CheckDocument, check.SCHEMA_VERSION, "stealtime check --json"),
        JsonDocument("analysis", sched.AnalysisDocument, sched.SCHEMA_VERSION, "stealtime sched analyze --json"),
        JsonDocument("curve", sched.CurveDocument, sched.SCHEMA_VERSION, "stealtime sched curve --json"),
        JsonDocument("placement", sched.PlacementDocument, sched.SCHEMA_VERSION, "stealtime sched place --json"),
        JsonDocument(
            "extract", extraction.ExtractDocument, extraction.SCHEMA_VERSION, "stealtime sched extract --json"
        ),
        JsonDocument("verify", extraction.VerifyDocument, extraction.SCHEMA_VERSION, "stealtime sched verify --json"),
        JsonDocument("status", status.StatusDocument, status.SCHEMA_VERSION, "stealtime protect status --json"),
        JsonDocument(
            "protect-doctor", checking.StartCheckDocument, checking.SCHEMA_VERSION, "stealtime protect doctor --json"
        ),
        JsonDocument("recover", recovery.RecoveryDocument, recovery.SCHEMA_VERSION, "stealtime protect recover --json"),
    )
}

INPUT_FILES = {
    one.name: one
    for one in (
        InputFile("campaign", "CAMPAIGN.toml of `stealtime run`", Campaign),
        InputFile("vm", "VM.toml of `stealtime protect start`", VmFile),
        InputFile("host", "HOST.toml of `stealtime protect host`", HostFile),
        InputFile("rules", "FILE of `stealtime advise --rules`", RuleBook),
        InputFile("bars", "BARS.toml of `stealtime show --accept`", BarFile),
        InputFile("tasks", "TASKS.toml of `stealtime sched analyze`", TaskFile),
        InputFile("overheads", "OVERHEADS.toml of `stealtime sched analyze --overheads`", OverheadFile),
        InputFile("windows", "FILE of `stealtime sched analyze --supply windows:FILE`", WindowFile),
    )
}
