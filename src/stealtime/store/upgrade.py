"""Documents of older runs, brought to what this version writes, so that they can still be read and compared."""

from collections.abc import Callable, Mapping
from typing import Any

from stealtime.store.model import SCHEMA_VERSION


def upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Give a ``manifest.json`` or ``trial.json`` of any older version as one of ``SCHEMA_VERSION``.

    A document that lacks what it should have is left as it is there: whoever validates it says so.
    """
    version = document.get("schema_version")
    while isinstance(version, int) and version in _STEPS and version < SCHEMA_VERSION:
        document = {**_STEPS[version](document), "schema_version": version + 1}
        version += 1
    return _with_new_names(document)


def _from_1(document: dict[str, Any]) -> dict[str, Any]:
    """Let the measuring threads of 1, which had one CPU, have a list of it."""
    outcome = document.get("outcome")
    if not isinstance(outcome, dict):
        return document
    changed = dict(outcome)
    request, placement = outcome.get("request"), outcome.get("placement")
    if isinstance(request, dict) and "cpu" in request:
        rest = {key: value for key, value in request.items() if key != "cpu"}
        changed["request"] = {**rest, "cpus": [request["cpu"]]}
    if isinstance(placement, dict) and "cpu" in placement:
        changed["placement"] = {"cpus": [placement["cpu"]], **placement}
    return {**document, "outcome": changed}


def _from_2(document: dict[str, Any]) -> dict[str, Any]:
    """Let a manifest of 2, which does not tell resumptions, say of its beginning what it says of the run."""
    same = ("command_line", "stealtime_version", "git_describe", "host")
    if "run_id" not in document or not all(key in document for key in (*same, "created_at")):
        return document
    begun = {
        "at": document["created_at"],
        **{key: document[key] for key in same},
        "agent_sha256": {"absent": "the stealtime that began the run did not note it"},
    }
    return {**document, "provenance": [begun]}


def _from_3(document: dict[str, Any]) -> dict[str, Any]:
    """Name the only host of 3, and take the result, which could only be durations, out of the outcome of a trial."""
    if "cell" in document:
        return _with_result({"host": "local", **document})
    provenance = document.get("provenance")
    if isinstance(provenance, list):
        document = {**document, "provenance": [_with_hosts(one) for one in provenance]}
    return _with_hosts(document)


def _with_result(document: dict[str, Any]) -> dict[str, Any]:
    outcome = document.get("outcome")
    if not isinstance(outcome, dict):
        return document
    own = ("layout", "calibrated_floor_units")
    result = {
        "kind": "durations",
        "tables": ["samples", "events"],
        **{key: outcome[key] for key in own if key in outcome},
    }
    return {**document, "outcome": {key: outcome[key] for key in outcome if key not in own}, "result": result}


def _with_hosts(document: dict[str, Any]) -> dict[str, Any]:
    if "host" not in document:
        return document
    rest = {key: value for key, value in document.items() if key != "host"}
    return {**rest, "hosts": {"local": document["host"]}}


def _from_4(document: dict[str, Any]) -> dict[str, Any]:
    """Change nothing: 4 knew no trials that were cut short and no pauses, and lacks nothing else."""
    return document


_STEPS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1, 2: _from_2, 3: _from_3, 4: _from_4}
"""By the version that each begins with."""


_RENAMED: Mapping[str, str] = {
    "blow": "fault",
    "blow_to_running_ns": "fault_to_running_ns",
    "blow_to_detection_ns": "fault_to_detection_ns",
    "blow_to_answer_ns": "fault_to_answer_ns",
    "blown_ns": "fault_ns",
    "lapses": "retries",
    "placement": "roles",
}
"""Keys that studies gave parameters and results up to November 2026, and what they are called now."""


def _with_new_names(document: dict[str, Any]) -> dict[str, Any]:
    """Rename keys of the campaign, the cells and the results of earlier versions, where they are there."""
    renamed = dict(document)
    if isinstance(result := document.get("result"), dict):
        renamed["result"] = _renamed(result)
    if isinstance(cell := document.get("cell"), dict):
        renamed["cell"] = _renamed_cell(cell)
    if isinstance(planned := document.get("planned"), list):
        renamed["planned"] = [_renamed_cell(one) if isinstance(one, dict) else one for one in planned]
    campaign = document.get("campaign")
    if isinstance(campaign, dict):
        renamed["campaign"] = {
            key: _renamed_tables(value) if key in _TABLES else value for key, value in campaign.items()
        }
    return renamed


_TABLES = ("probes", "short")
"""Of a campaign: those of its probes."""


def _renamed_tables(tables: Any) -> Any:
    if isinstance(tables, list):
        return [_renamed(one) if isinstance(one, dict) else one for one in tables]
    if isinstance(tables, dict):
        return {key: _renamed(one) if isinstance(one, dict) else one for key, one in tables.items()}
    return tables


def _renamed_cell(cell: dict[str, Any]) -> dict[str, Any]:
    parameters = cell.get("parameters")
    return {**cell, "parameters": _renamed(parameters)} if isinstance(parameters, dict) else cell


def _renamed(table: dict[str, Any]) -> dict[str, Any]:
    return {_RENAMED.get(key, key): value for key, value in table.items()}
