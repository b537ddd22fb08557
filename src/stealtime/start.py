"""Where the command begins: nothing is loaded yet, and Ctrl-C ends the process as it ends any other program.

Loading the command takes a tenth of a second, in which there is nothing to put right and nothing to tell: Python's own
way, a traceback out of the middle of an import, would only frighten. What comes before this file is Python's own start,
some 20 ms on an idle machine, in which no program in Python can do anything about it.
"""

# Not `signal`: its enumerations take longer to load than all else here.
import _signal  # type: ignore[import-not-found]
import sys

_IS_IGNORED = _signal.getsignal(_signal.SIGINT) == _signal.SIG_IGN
if not _IS_IGNORED:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> None:
    """Load the command and run it; ``stealtime.cli.main`` takes Ctrl-C over once all is loaded."""
    from stealtime.vocabulary.supported import HINT, what_is_missing

    missing = what_is_missing()
    if missing is not None:
        # Elsewhere the next import would end in a traceback about a library that cannot be loaded.
        sys.exit(f"error: {missing}\nhint: {HINT}")
    from stealtime import cli

    try:
        cli.main()
    finally:
        # What is left is Python's own end.
        if not _IS_IGNORED:
            _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
