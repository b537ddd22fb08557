"""``stealtime schema``: the JSON Schemas of the files that users write, and of what commands print with ``--json``."""

from enum import StrEnum
from typing import Annotated

import typer


class File(StrEnum):
    """What has a schema: files that users write, then what commands print."""

    CAMPAIGN = "campaign"
    VM = "vm"
    HOST = "host"
    RULES = "rules"
    BARS = "bars"
    TASKS = "tasks"
    OVERHEADS = "overheads"
    WINDOWS = "windows"
    SHOW = "show"
    ACCEPTANCE = "acceptance"
    TAILS = "tails"
    PUBLISHED = "published"
    DOCTOR = "doctor"
    ADVISE = "advise"
    ADVISE_FROM = "advise-from"
    ADVISE_HISTORY = "advise-history"
    FLEET_RUN = "fleet-run"
    BLACKOUT = "blackout"
    CHECK = "check"
    ANALYSIS = "analysis"
    CURVE = "curve"
    PLACEMENT = "placement"
    EXTRACT = "extract"
    VERIFY = "verify"
    STATUS = "status"
    PROTECT_DOCTOR = "protect-doctor"
    RECOVER = "recover"
    STATEMENTS = "statements"


def schema(
    file: Annotated[
        File,
        typer.Argument(
            metavar="FILE",
            help="A file that you write: campaign: `stealtime run` reads it; vm: `protect start`; host: `protect "
            "host`; rules: `stealtime advise --rules`; bars: `stealtime show --accept`; tasks: `stealtime sched "
            "analyze`; overheads: its --overheads; windows: its --supply windows:FILE. Or what a command prints with "
            "--json: show, and acceptance and tails of it, published (`stealtime compare`), doctor, advise, blackout, "
            "check, analysis, curve, placement, extract and verify (`stealtime sched`), status, recover and "
            "protect-doctor (`stealtime protect`).",
            show_default=False,
            show_choices=False,
        ),
    ],
) -> None:
    """Print the JSON Schema of an input file or of a document: every key with its type, default and meaning.

    Editors that support JSON Schema complete and check the file with it (for example Taplo, with
    `#:schema vm.schema.json` as the first line of the file):

        stealtime schema vm > vm.schema.json
    """
    from stealtime.cli.output import print_document
    from stealtime.schemas import DOCUMENTS, INPUT_FILES

    print_document((DOCUMENTS.get(file.value) or INPUT_FILES[file.value]).schema())
