"""What the replicator is asked about a machine without starting it."""

import subprocess
from collections.abc import Sequence
from typing import Literal

from stealtime.lab.platforms.leftovers import temporary_folder
from stealtime.protect.ending import parse_log_tail
from stealtime.protect.programs import find_replicator
from stealtime.protect.specification import MemberSpec, write_document
from stealtime.vocabulary.errors import StealtimeError

_ANSWERS_WITHIN_S = 60.0


def ask(question: Literal["recover", "check"], spec: MemberSpec, prefix: Sequence[str] = ()) -> str:
    """Give what the replicator's command of this name prints on a machine.

    Raises:
        StealtimeError: It did not answer, or says why it cannot.
    """
    name = spec.machine.name
    with temporary_folder() as folder:
        file = folder / "spec.json"
        write_document(file, spec)
        try:
            asked = subprocess.run(
                [*prefix, str(find_replicator()), question, "--spec", str(file)],
                capture_output=True,
                text=True,
                timeout=_ANSWERS_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise StealtimeError(
                f"{name}: the register was not read within {_ANSWERS_WITHIN_S:g} s",
                hint="does it run, and is it reached from here?",
            ) from error
    if asked.returncode == 0:
        return asked.stdout
    reason, hint = parse_log_tail(asked.stderr.splitlines())
    raise StealtimeError(
        f"{name}: {reason or asked.stderr.strip() or 'the replicator ended without a word'}",
        hint=hint or "does the register run, and is it reached from here?",
    )
