"""The command line: ``main`` starts a command and turns whatever goes wrong into one sentence and an exit code.

Commands are one file each; they import their room inside the function, so that ``stealtime -h`` stays fast.
"""

import signal
import sys
from typing import Annotated

import typer

import stealtime
from stealtime.cli import streams
from stealtime.cli.output import tell_error
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError, weightiest

_INTERRUPTED_IN_TYPER = 130
_ISSUES = "please report it with the output of the same command and --debug"
_GROUPS = ("protect", "sched")


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
        code = _tell(_usage_message(error), _usage_hint(error), ExitCode.USAGE)
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
        code = _tell(f"internal error in stealtime: {type(error).__name__}: {error}", _ISSUES, ExitCode.FAILED)
    sys.exit(int(_after_output(code)))


def _after_output(code: ExitCode) -> ExitCode:
    """Tell if what was printed could not be written; whoever has closed a pipe has seen enough (``| head``)."""
    lost = streams.lost_output()
    if lost is None or isinstance(lost, BrokenPipeError):
        return code
    hint = "give it a place that can be written, such as a file on another disk: > FILE"
    return weightiest(code, _tell(f"standard output cannot be written: {lost.strerror}", hint, ExitCode.FAILED))


def _as_meant(arguments: list[str]) -> list[str]:
    """Give the arguments of somebody who asks what there is: no command, ``help``, ``version``."""
    if not arguments or (len(arguments) == 1 and arguments[0] in _GROUPS):
        return [*arguments, "--help"]
    if arguments[0] == "help":
        return [*arguments[1:], "--help"]
    return ["--version"] if arguments == ["version"] else arguments


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
    application = _application()
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # All is loaded (see `stealtime.start`): from here on there may be something to put right.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    result = application(args=arguments, prog_name="stealtime", standalone_mode=False)
    if result == _INTERRUPTED_IN_TYPER:
        raise KeyboardInterrupt
    return ExitCode(result) if isinstance(result, int) else ExitCode.FINE


def _application() -> typer.Typer:
    from stealtime.cli import (
        advise,
        blackout,
        compare,
        doctor,
        export,
        ls,
        protect,
        report,
        run,
        sched,
        schema,
        show,
        watch,
    )

    application = typer.Typer(
        help="What virtualization takes from your workload, where it goes, and whether the workload survives its host.",
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    application.callback()(_options)
    commands = (
        doctor.doctor,
        run.run,
        ls.ls,
        show.show,
        report.report,
        compare.compare,
        export.export,
        advise.advise,
        watch.watch,
        blackout.blackout,
        schema.schema,
    )
    for command in commands:
        application.command()(command)
    application.add_typer(protect.application(), name="protect")
    application.add_typer(sched.application(), name="sched")
    return application


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


def _usage_message(error: typer.TyperException) -> str:
    """Say what the parser says, as part of a sentence: ``No such option: --foo`` becomes ``no such option: --foo``."""
    # `format_message` is not in the base class, but all that the parser raises have it.
    format_message = getattr(error, "format_message", None)
    text = str(format_message()) if format_message is not None else str(error)
    text = text.replace("Value error, ", "")
    return text[:1].lower() + text[1:].rstrip(".")


def _usage_hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "stealtime"
    return f"see `{path} -h`"
