"""``stealtime schema``: the JSON Schemas of the files that users write."""

from enum import StrEnum
from typing import Annotated

import typer


class File(StrEnum):
    """The input files that have a schema."""

    CAMPAIGN = "campaign"
    VM = "vm"
    HOST = "host"
    RULES = "rules"
    BARS = "bars"
    TASKS = "tasks"
    OVERHEADS = "overheads"


def schema(
    file: Annotated[
        File,
        typer.Argument(
            metavar="FILE",
            help="campaign: `stealtime run` reads it; vm: `protect start`; host: `protect host`; "
            "rules: `stealtime advise --rules`; bars: `stealtime show --accept`; tasks: `stealtime sched analyze`; "
            "overheads: its --overheads.",
            show_default=False,
        ),
    ],
) -> None:
    """Print the JSON Schema of an input file: every key with its type, default and meaning.

    Editors that support JSON Schema complete and check the file with it (for example Taplo, with
    `#:schema vm.schema.json` as the first line of the file):

        stealtime schema vm > vm.schema.json
    """
    from stealtime.cli.output import print_document
    from stealtime.schemas import INPUT_FILES

    print_document(INPUT_FILES[file.value].schema())
