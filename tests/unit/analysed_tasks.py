"""What ``stealtime sched analyze --json`` says of tasks, held against its schema."""

import json
from typing import Any

from command import Command
from documents import hold_against_schema


def analysed_with_code(stealtime: Command, *arguments: str) -> tuple[dict[str, Any], int]:
    """Give the document, and the exit code."""
    ended = stealtime("sched", "analyze", *arguments, "--json")
    document: dict[str, Any] = json.loads(ended.out)
    hold_against_schema(document, "analysis")
    return document, ended.code


def analysed(stealtime: Command, *arguments: str) -> dict[str, Any]:
    return analysed_with_code(stealtime, *arguments)[0]


def responses_ns(document: dict[str, Any]) -> dict[str, int]:
    """Give the bound of each task that has one, by name."""
    return {task["name"]: task["response_ns"] for cpu in document["cpus"] for task in cpu["tasks"]}


def responses_ms(document: dict[str, Any]) -> dict[str, int]:
    return {name: response // 1_000_000 for name, response in responses_ns(document).items()}
