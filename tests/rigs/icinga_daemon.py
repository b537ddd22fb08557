"""Icinga 2, the real one, out of packages that are not installed: theirs would start a service for everybody."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fetched_programs import unpack_fetched

from stealtime.lab.image.debian_programs import INTERPRETER, resolve_packages

_WHAT = "Icinga 2"
_HOST = "node"
_PROGRAM = "usr/lib/x86_64-linux-gnu/icinga2/sbin/icinga2"
_LIBRARIES = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu")

# What it finds is told by an event handler, which gets it in variables: its own interface needs certificates.
_SETTINGS = """
include <itl>
object Endpoint "{host}" {{ }}
object Zone "master" {{ endpoints = [ "{host}" ] }}
object CheckerComponent "checker" {{ }}
object CheckCommand "nothing" {{ command = [ "/bin/true" ] }}
object EventCommand "tell" {{
  command = [ "/bin/sh", "-c", "env -0 >{folder}/told.partial && mv {folder}/told.partial {folder}/told" ]
  env.STATE = "$service.state$"
  env.OUTPUT = "$service.output$"
  env.PERFORMANCE = "$service.perfdata$"
}}
template Service "told" default {{ event_command = "tell" }}
object Host "{host}" {{
  check_command = "nothing"
{variables}
}}
"""


def unpack_icinga(unpacked: Path) -> None:
    """Fetch it into a folder that is not there yet.

    Raises:
        StealtimeError: Its packages cannot be had.
    """
    unpack_fetched(resolve_packages(("icinga2-bin", "icinga2-common"), _WHAT), unpacked, _WHAT)


@contextmanager
def icinga(unpacked: Path, folder: Path, services: str, variables: dict[str, str]) -> Iterator[None]:
    """Run it, with one host.

    Args:
        unpacked: Where it was fetched to.
        folder: An empty one, in which it tells what it finds.
        services: Commands and services, in its language.
        variables: Of the host.
    """
    lines = "\n".join(f'  vars.{name} = "{value}"' for name, value in variables.items())
    settings = folder / "icinga2.conf"
    settings.write_text(_SETTINGS.format(host=_HOST, folder=folder, variables=lines) + services)
    places = {name: folder / name for name in ("ConfigDir", "DataDir", "LogDir", "CacheDir", "SpoolDir", "InitRunDir")}
    for place in places.values():
        place.mkdir()
    libraries = ":".join(str(unpacked / name) for name in _LIBRARIES)
    argv = [str(unpacked / INTERPRETER), "--inhibit-cache", "--library-path", libraries, str(unpacked / _PROGRAM)]
    argv += ["daemon", "--config", str(settings), "--include", str(unpacked / "usr/share/icinga2/include")]
    for name, value in {**places, "RunAsUser": "root", "RunAsGroup": "root", "NodeName": _HOST}.items():
        argv += ["--define", f"{name}={value}"]
    log = (folder / "output").open("w")
    # It starts itself once more, then by the linker of this host.
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries}
    process = subprocess.Popen(argv, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()


def await_event(folder: Path, within_s: float) -> dict[str, str]:
    """Wait until a service was found not to be well; gives its STATE, OUTPUT and PERFORMANCE."""
    deadline = time.monotonic() + within_s
    told = folder / "told"
    while not told.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"Icinga has found nothing: {(folder / 'output').read_text()[-3000:]}")
        time.sleep(0.2)
    variables = (one.partition("=") for one in told.read_text().split("\0"))
    return {name: value for name, _, value in variables if name in ("STATE", "OUTPUT", "PERFORMANCE")}
