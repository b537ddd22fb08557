"""``stealtime schema``: what may stand in the files that people write."""

from enum import StrEnum
from typing import Annotated

import typer


class File(StrEnum):
    """What ``stealtime schema`` knows."""

    CAMPAIGN = "campaign"
    VM = "vm"
    HOST = "host"
    RULES = "rules"


def schema(
    file: Annotated[
        File,
        typer.Argument(
            metavar="FILE",
            help="campaign: of `stealtime run`; vm: of `stealtime protect start`; host: of `stealtime protect host`; "
            "rules: of `stealtime advise --rules`.",
            show_default=False,
        ),
    ],
) -> None:
    """Print the JSON Schema of a TOML file that you write: every key, what it takes, its default and what it means.

    An editor that knows JSON Schema completes and checks the file with it (Taplo, for one: `#:schema vm.schema.json` in
    the first line):

        stealtime schema vm > vm.schema.json
    """
    from stealtime.cli.output import print_document
    from stealtime.schemas import INPUT_FILES

    print_document(INPUT_FILES[file.value].schema())
