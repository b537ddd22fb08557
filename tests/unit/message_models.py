"""Makes the Python models of the messages from the schema of their Rust types, ``tests/golden/messages.schema.json``.

A struct becomes a model, an enum of words a ``Literal``, an enum with a tag a union of models, one for each variant. A
variant that holds all of a named type is a subclass of it. What may be null need not be given, as serde reads it.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[2] / "src"
MADE = """

Generated from the Rust types. After a change of ``crates/wire``::

    UPDATE_GOLDEN=1 cargo test -p stealtime-wire
    UPDATE_GOLDEN=1 pytest tests/unit/test_message_models.py
"""
WIDTH = 120

MODULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "stealtime.vocabulary.findings": (
        "Findings: what limits or invalidates a result.",
        ("FindingLevel", "Finding"),
    ),
    "stealtime.vocabulary.clocks": (
        "The clocks of a machine: a reading of them, and the one that samples are counted in.",
        ("ClockReading", "ClockCheck", "ClockRecord"),
    ),
    "stealtime.wire.load": (
        "A load: what it is to do, and what it did.",
        (
            *("CpuLoad", "MemoryLoad", "Load", "LoadRequest", "WorkUnit", "LoadOutcome"),
            *("StartLoad", "LoadStarted", "StopLoad", "LoadDone"),
        ),
    ),
    "stealtime.wire.rtload": (
        "``rtload``: the task set that it runs, and what it tells of each task besides the rows of its table.",
        (
            *("RealTimePolicy", "RealTimeTask", "DrawnTaskSet", "RtloadProbe"),
            *("ClockConversion", "RealTimeTaskOutcome", "RtloadOutcome"),
        ),
    ),
    "stealtime.wire.devices": (
        "``disk`` and ``net``: requests to a device, one a sample.",
        (
            *("GivenTarget", "ScratchTarget", "MarkedTarget", "DiskTarget", "DiskOperation", "DiskOrder", "DiskEngine"),
            *("DiskProbe", "NetTransport", "NetProbe"),
        ),
    ),
    "stealtime.wire.threads": (
        "The agent's threads in the machine under test: where they ran, and what may have stopped one.",
        ("ThreadPlacement", "ThreadRole", "MachineThread", "RealTimeLimitKind", "RealTimeLimit"),
    ),
    "stealtime.wire.program": (
        "Somebody's program: how it is started, and its threads, as the machine's kernel tells of them.",
        ("Reservation", "ProgramThread", "StartProgram", "ProgramStarted", "ListThreads", "ThreadsListed"),
    ),
    "stealtime.wire.threshold": (
        "A sample that is too long: what to do at it, and which it was.",
        ("OnThreshold", "ThresholdHit"),
    ),
    "stealtime.wire.message": ("The JSON messages.", ()),
}
"""The modules with what each holds, those first that others import; the last one has the rest."""

WRITTEN_BY_HAND = {"Reading": "Reading"}
NAMES = {
    "Probe": "ProbeRequest",
    "ToAgent hello": "ControlHello",
    "FromAgent hello": "AgentHello",
    "FromAgent clock_reading": "ClockAnswer",
}
"""Where the Rust name, or for a variant its tag, would say too little, or twice the same."""
ENDINGS = {"Probe": "Probe", "Load": "Load", "DiskTarget": "Target"}
"""Of the variants' names."""
OF_ITS_RESULT = ("WholeOutcome", ("layout", "calibrated_floor_units", "rtload"))
"""What of a ``TrialOutcome`` is about its result: records of trials keep the rest apart from it."""


def make_modules(schema: dict[str, Any]) -> dict[Path, str]:
    """Give each module's file and text."""
    models = _Models(schema["$defs"])
    for direction in ("FromAgent", "ToAgent"):
        models.name_of(direction)
    placed = {name: module for module, (_, names) in MODULES.items() for name in names}
    version = f"PROTOCOL_VERSION = {schema['protocol_version']}\n" + _docstring(
        "Rises whenever an older peer could misunderstand a newer one."
    )
    adapters = "\n".join(
        f"{name}: TypeAdapter[Any] = TypeAdapter({of})"
        for name, of in (("from_agent", "FromAgent"), ("to_agent", "ToAgent"))
    )
    files = {}
    imports = [
        "from typing import Annotated, Any, Literal",
        "from pydantic import Field, TypeAdapter",
        "from stealtime.vocabulary.readings import Facts, Model, Reading, Unsigned",
    ]
    *_, last = MODULES
    for module, (subject, names) in MODULES.items():
        path = (SOURCE / module.replace(".", "/")).with_suffix(".py")
        own = [code for name, code in models.made.items() if placed.get(name, last) == module]
        code = [version, *own, adapters] if module == last else own
        files[path] = _tidy("\n\n".join([f'"""{subject}{MADE}"""', *imports, *code]), path)
        imports.append(f"from {module} import {', '.join(names)}")
    return files


class _Models:
    """The code of each model, by name, what it needs before it."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self.made: dict[str, str] = {}

    def name_of(self, rust: str) -> str:
        name = NAMES.get(rust, rust)
        if rust in WRITTEN_BY_HAND or name in self.made:
            return name
        schema = self._definitions[rust]
        if "properties" in schema:
            self._model(name, schema)
        elif all("properties" in variant for variant in schema.get("oneOf", [{}])):
            self._union(rust, schema)
        else:
            self._words(name, schema)
        return name

    def _words(self, name: str, schema: dict[str, Any]) -> None:
        variants = [
            (value, variant.get("description"))
            for variant in schema.get("oneOf", [schema | {"description": None}])
            for value in variant.get("enum", [variant.get("const")])
        ]
        means = [f"`{value}`: {meaning}" for value, meaning in variants if meaning]
        words = ", ".join(f'"{value}"' for value, _ in variants)
        self.made[name] = f"{name} = Literal[{words}]\n{_docstring(schema['description'], *means)}"

    def _union(self, rust: str, schema: dict[str, Any]) -> None:
        name = NAMES.get(rust, rust)
        tag = "type" if rust in ("ToAgent", "FromAgent") else "name"
        variants = [self._variant(rust, tag, variant) for variant in schema["oneOf"]]
        self.made[name] = (
            f'{name} = Annotated[{" | ".join(variants)}, Field(discriminator="{tag}")]\n'
            f"{_docstring(schema['description'])}"
        )

    def _variant(self, rust: str, tag: str, schema: dict[str, Any]) -> str:
        value = schema["properties"][tag]["const"]
        camel = "".join(word.capitalize() for word in value.split("_")) + ENDINGS.get(rust, "")
        name = NAMES.get(f"{rust} {value}", camel)
        rest = {key: part for key, part in schema["properties"].items() if key != tag}
        base = schema.get("$ref", "").rpartition("/")[2] or next(
            (of for of, one in self._definitions.items() if rest and one.get("properties") == rest), None
        )
        if base is None:
            self._model(name, schema)
            return name
        whole = self.name_of(base)
        only_tag = schema | {"properties": {tag: schema["properties"][tag]}, "required": [tag]}
        self._model(name, only_tag, OF_ITS_RESULT[0] if whole == "TrialOutcome" else whole)
        return name

    def _model(self, name: str, schema: dict[str, Any], base: str = "Model") -> None:
        # Keys of a schema are sorted, those required are in the order in which the fields are declared.
        properties = schema["properties"]
        order = [*schema.get("required", []), *(key for key in properties if key not in schema.get("required", []))]
        fields = {key: self._field(key, properties[key], key in schema.get("required", [])) for key in order}
        apart = [fields.pop(key) for key in OF_ITS_RESULT[1]] if name == "TrialOutcome" else []
        self.made[name] = _class(name, base, schema["description"], fields.values())
        if apart:
            self.made[OF_ITS_RESULT[0]] = _class(
                OF_ITS_RESULT[0], name, "What came of a trial, with what is about its result.", apart
            )

    def _field(self, key: str, schema: dict[str, Any], is_written_always: bool) -> str:
        if "const" in schema:
            return f'{key}: Literal["{schema["const"]}"] = "{schema["const"]}"'
        kind = self._type(schema)
        arguments = _limits(schema)
        if kind.endswith("| None"):
            arguments["default"] = "None"
        elif isinstance(schema.get("default"), list | dict) or not is_written_always:
            arguments["default_factory"] = "list" if schema["type"] == "array" else "dict"
        elif "default" in schema:
            arguments["default"] = repr(schema["default"])
        if not is_written_always:
            arguments["exclude_if"] = "lambda value: not value"
        if arguments.keys() == {"default"}:
            value = f" = {arguments['default']}"
        elif arguments:
            value = f" = Field({', '.join(f'{name}={value}' for name, value in sorted(arguments.items()))})"
        else:
            value = ""
        text = f"{key}: {kind}{value}"
        return f"{text}\n{_docstring(schema['description'], indent=4)}" if "description" in schema else text

    def _type(self, schema: Any) -> str:
        if "$ref" in schema:
            return self.name_of(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            kind, _ = schema["anyOf"]
            return f"{self._type(kind)} | None"
        if isinstance(schema["type"], list):
            kind, _ = schema["type"]
            return f"{self._type(schema | {'type': kind})} | None"
        match schema["type"]:
            case "array":
                return f"list[{self._type(schema['items'])}]"
            case "object":
                kind = self._type(schema["additionalProperties"])
                return "Facts" if kind == "Reading" else f"dict[str, {kind}]"
            case "integer":
                return "int" if _limits(schema) else "Unsigned"
        return {"number": "float", "boolean": "bool", "string": "str"}[schema["type"]]


def _limits(schema: dict[str, Any]) -> dict[str, str]:
    names = {"minimum": "ge", "maximum": "le", "minItems": "min_length"}
    limits = {names[key]: str(schema[key]) for key in names if key in schema}
    return {} if limits == {"ge": "0"} else limits


def _class(name: str, base: str, description: str, fields: Iterable[str]) -> str:
    body = "\n".join([_docstring(description, indent=4) + "\n", *fields])
    return f"class {name}({base}):\n{textwrap.indent(body, '    ')}"


def _docstring(description: str, *points: str, indent: int = 0) -> str:
    """Put a Rust comment, and points below it, into quotes."""
    lines = _wrap(f'"""{description}' + ("" if points else '"""'), indent)
    if points:
        lines += ["", *(line for point in points for line in _wrap(f"- {point}", indent, hanging="  ")), '"""']
    return "\n".join(lines)


def _wrap(comment: str, indent: int, hanging: str = "") -> list[str]:
    text = re.sub(r"\[?`(?:\w+::)*([^`]+)`\]?", r"``\1``", " ".join(comment.split()))
    return textwrap.wrap(text, WIDTH - indent, subsequent_indent=hanging, break_on_hyphens=False)


def _tidy(code: str, path: Path) -> str:
    """Sort imports, leave out those that are not needed, and format."""
    for arguments in (["check", "--fix", "--select=F401"], ["check", "--fix", "--select=I"], ["format"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--quiet", f"--stdin-filename={path}", "-"]
        code = subprocess.run(command, input=code, stdout=subprocess.PIPE, text=True, check=True).stdout
    return code
