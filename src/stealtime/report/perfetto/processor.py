"""Have Perfetto's own trace processor read a file that was written, and count what it finds.

That program is a binary that Perfetto's site hands out; the package on PyPI fetches it from there at its first use.
So nobody is asked for it: whoever has one names it.
"""

import re
import subprocess
from pathlib import Path

from stealtime.report.perfetto.writer import Written
from stealtime.vocabulary.errors import StealtimeError, UsageError

_QUERY = (
    "select (select count(*) from slice) as slices, (select count(*) from counter) as counters,"
    " (select count(*) from flow) as flows,"
    " (select ifnull(sum(value), 0) from stats where severity = 'error') as errors"
)
_ANSWER = re.compile(r"^\"?(\d+)\"?,\"?(\d+)\"?,\"?(\d+)\"?,\"?(\d+)\"?$", re.MULTILINE)
_PATIENCE_S = 600.0
_HINT = "get one as perfetto.dev/docs/reference/trace-processor-cli says"


def must_be_there(program: Path) -> None:
    """Refuse a program that is not there, also before anything is written.

    Raises:
        UsageError: It is not there.
    """
    if not program.is_file():
        raise UsageError(f"--trace-processor {program}: there is no such file", hint=_HINT)


def check_by_processor(program: Path, trace: Path, written: Written) -> str:
    """Have the program load a trace and compare its counts with what was written.

    Returns:
        What it found, in words.

    Raises:
        UsageError: There is no such program.
        StealtimeError: It cannot read the trace, or finds something else than was written.
    """
    must_be_there(program)
    try:
        ended = subprocess.run(
            [program.absolute(), "-Q", _QUERY, trace], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except OSError as error:
        raise UsageError(f"--trace-processor {program} cannot be run: {error.strerror}", hint=_HINT) from error
    except subprocess.TimeoutExpired as error:
        raise StealtimeError(f"{program} has not read {trace} within {_PATIENCE_S:.0f} s") from error
    if ended.returncode != 0 or _ANSWER.search(ended.stdout) is None:
        said = (ended.stderr or ended.stdout).strip().splitlines()[-1:] or ["nothing"]
        raise StealtimeError(
            f"{program} did not count the slices of {trace}: it ended with {ended.returncode} and said {said[0]!r}",
            hint=_HINT,
        )
    return f"{program} finds {counted(ended.stdout, written)}, as were written"


def counted(answer: str, written: Written) -> str:
    """Compare the counts of an answer with what was written; give them in words.

    Raises:
        StealtimeError: They differ.
    """
    found = _ANSWER.search(answer)
    if found is None:
        raise StealtimeError(f"{answer!r} holds no counts")
    slices, counters, flows, errors = (int(group) for group in found.groups())
    # To Perfetto an instant is a slice without length.
    wanted = (written.slices + written.instants, written.values, written.flows, 0)
    if (slices, counters, flows, errors) != wanted:
        raise StealtimeError(
            f"the trace processor finds {slices} slices, {counters} values, {flows} flows and {errors} errors"
            f" where {wanted[0]}, {wanted[1]}, {wanted[2]} and 0 were written",
            hint="please report it with the version of the trace processor",
        )
    return f"{slices} slices, {counters} values and {flows} flows"
