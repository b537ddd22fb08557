"""The command line: ``main`` starts a command and turns whatever goes wrong into one sentence and an exit code.

Commands are one file each, loaded when they are asked for; they import their room inside the function, so that
``stealtime -h``, which loads them all, stays fast.
"""

import _thread
import signal
import sys
import threading
import time
from functools import cache
from typing import Annotated, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

import stealtime
from stealtime.cli import help_width, streams
from stealtime.cli.late_commands import GROUPS, LateCommands
from stealtime.cli.old_spellings import in_todays_words
from stealtime.cli.output import tell_error
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError, weightiest

_INTERRUPTED_IN_TYPER = 130
_ISSUES = "please report it with the output of the same command and --debug"
_ELSEWHERE_S = 0.01
"""By then a callback that raises nothing is over."""


def main() -> None:
    """Run the command that ``sys.argv`` asks for, and exit.

    ``--debug`` is taken anywhere on the line: who meets an error adds it at the end.
    """
    streams.prepare()
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    try:
        code = _run(_as_meant([argument for argument in arguments if argument != "--debug"]))
    except StealtimeError as error:
        if debug:
            raise
        code = _tell(error.message, error.hint, error.exit_code)
    except typer.TyperException as error:
        if debug:
            raise
        # Loads pydantic, which a right command line may do without.
        from stealtime.cli.usage import usage_hint, usage_message

        code = _tell(usage_message(error), usage_hint(error, arguments, GROUPS), ExitCode.USAGE)
    except KeyboardInterrupt:
        code = _tell("interrupted", None, ExitCode.FAILED)
    except OSError as error:
        if debug:
            raise
        # A file that the user named or owns: no defect of ours, wherever it was noticed.
        where = f"{error.filename}: " if error.filename is not None else ""
        hint = "check that the file or folder exists and is accessible; --debug shows where this happened"
        code = _tell(f"{where}{error.strerror or error}", hint, ExitCode.FAILED)
    except Exception as error:
        if debug:
            raise
        if _is_interruption(error):
            code = _tell("interrupted", None, ExitCode.FAILED)
        else:
            code = _tell(f"internal error in stealtime: {type(error).__name__}: {error}", _ISSUES, ExitCode.FAILED)
    sys.exit(int(_after_output(code)))


def _is_interruption(error: BaseException | None) -> bool:
    """Tell whether Ctrl-C came into a library that makes an error of its own of it, as pydantic's core does."""
    while error is not None:
        # Rust writes what it met into its text, and keeps no cause.
        if isinstance(error, KeyboardInterrupt) or KeyboardInterrupt.__name__ in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _after_output(code: ExitCode) -> ExitCode:
    """Tell if what was printed could not be written; whoever has closed a pipe has seen enough (``| head``)."""
    lost = streams.lost_output()
    if lost is None or isinstance(lost, BrokenPipeError):
        return code
    hint = "give it a place that can be written, such as a file on another disk: > FILE"
    return weightiest(code, _tell(f"standard output cannot be written: {lost.strerror}", hint, ExitCode.FAILED))


def _as_meant(arguments: list[str]) -> list[str]:
    """Give the arguments of somebody who asks what there is: no command, ``help``, ``version``."""
    if not arguments or (len(arguments) == 1 and arguments[0] in GROUPS):
        return [*arguments, "--help"]
    if arguments[0] == "help":
        return [*arguments[1:], "--help"]
    return ["--version"] if arguments == ["version"] else in_todays_words(arguments)


def _refuse_named_shell(arguments: list[str]) -> None:
    """Completion is that of the shell that asks; a name behind the option would be taken for nothing."""
    for option in ("--install-completion", "--show-completion"):
        if option in arguments and len(arguments) > 1:
            other = next(argument for argument in arguments if argument != option)
            raise UsageError(
                f"{option} takes no {other!r}: it is about the shell that starts it",
                hint=f"start `stealtime {option}` in that shell",
            )


def _run(arguments: list[str]) -> ExitCode:
    _refuse_named_shell(arguments)
    command = command_line()
    # Before Ctrl-C is taken over; the first word may be another option's, and is then no command.
    command.commands.get(next((word for word in arguments if not word.startswith("-")), ""))
    sys.unraisablehook = _not_lost
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # All is loaded (see `stealtime.start`): from here on there may be something to put right.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    result = command.main(args=arguments, prog_name="stealtime", standalone_mode=False)
    if result == _INTERRUPTED_IN_TYPER:
        raise KeyboardInterrupt
    return ExitCode(result) if isinstance(result, int) else ExitCode.FINE


def _not_lost(lost: "sys.UnraisableHookArgs") -> None:
    """Raise Ctrl-C once more where it came into a place that can raise nothing, such as the end of an import's lock.

    A moment later, and so elsewhere: here, too, it would be lost.
    """
    if lost.exc_type is KeyboardInterrupt:
        _thread.start_new_thread(_interrupt_soon, ())
    else:
        sys.__unraisablehook__(lost)


def _interrupt_soon() -> None:
    time.sleep(_ELSEWHERE_S)
    # As the kernel does it: what the main thread waits for ends, too.
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)


@cache
def command_line() -> TyperGroup:
    """Build ``stealtime`` with all its commands, once in a process."""
    help_width.fit_help_to_the_terminal()
    application = typer.Typer(
        help="What virtualization takes from your workload, where it goes, and whether the workload survives its host.",
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    application.callback()(_options)
    group = cast("TyperGroup", get_command(application))
    group.commands = LateCommands()
    return group


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=lambda on: _version(on)),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something goes wrong.")] = False,
) -> None:
    """Take the options of ``stealtime`` itself; ``debug`` is only here for the help, ``main`` has taken it."""


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"stealtime {stealtime.__version__}\n")
        raise typer.Exit


def _tell(message: str, hint: str | None, code: ExitCode) -> ExitCode:
    tell_error(message, hint)
    return code
