"""The command line: ``main`` starts a command and turns whatever goes wrong into one sentence and an exit code.

Commands are one file each; they import their room inside the function, so that ``stealtime -h`` stays fast.
"""

import os
import sys
from typing import Annotated

import typer

import stealtime
from stealtime.vocabulary.errors import ExitCode, StealtimeError

_INTERRUPTED_IN_TYPER = 130
_ISSUES = "please report it with the output of the same command and --debug"


def main() -> None:
    """Run the command that ``sys.argv`` asks for, and exit.

    ``--debug`` is taken anywhere on the line: who meets an error adds it at the end.
    """
    arguments = sys.argv[1:]
    debug = "--debug" in arguments
    try:
        code = _run([argument for argument in arguments if argument != "--debug"])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has seen enough (`stealtime ls | head`); Python must not complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.FINE
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
    sys.exit(int(code))


def _run(arguments: list[str]) -> int:
    result = _application()(args=arguments, prog_name="stealtime", standalone_mode=False)
    if result == _INTERRUPTED_IN_TYPER:
        raise KeyboardInterrupt
    return result if isinstance(result, int) else ExitCode.FINE


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
    sys.stderr.write(f"error: {message}\n")
    if hint is not None:
        sys.stderr.write(f"hint: {hint}\n")
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
