"""Nagios, the real one, in a folder of its own, with one host and the services that a file of ours defines."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_OBJECTS = """
define timeperiod {
    timeperiod_name always
    alias always
%(days)s
}
define command {
    command_name nothing
    command_line /bin/true
}
define contact {
    contact_name nobody
    host_notification_period always
    service_notification_period always
    host_notification_options n
    service_notification_options n
    host_notification_commands nothing
    service_notification_commands nothing
}
define host {
    host_name localhost
    address 127.0.0.1
    max_check_attempts 1
    check_period always
    notification_period always
    contacts nobody
}
define service {
    name generic-service
    register 0
    max_check_attempts 1
    retry_interval 60
    check_period always
    notification_period always
    contacts nobody
}
"""


def _settings(folder: Path, files: list[Path]) -> str:
    names = {
        "log_file": "nagios.log",
        "object_cache_file": "objects.cache",
        "precached_object_file": "objects.precache",
        "status_file": "status.dat",
        "temp_file": "nagios.tmp",
        "temp_path": ".",
        "lock_file": "nagios.lock",
        "command_file": "nagios.cmd",
        "query_socket": "nagios.qh",
        "check_result_path": "results",
        "state_retention_file": "retention.dat",
    }
    fixed = {
        "status_update_interval": 1,
        "nagios_user": "root",
        "nagios_group": "root",
        "check_external_commands": 0,
        "enable_notifications": 0,
        "execute_service_checks": 1,
        "check_for_updates": 0,
        "use_syslog": 0,
        "interval_length": 1,
        "service_inter_check_delay_method": "n",
        "service_check_timeout": 60,
    }
    lines = [f"cfg_file={file}" for file in files]
    lines += [f"{key}={folder / name}" for key, name in names.items()]
    return "\n".join([*lines, *(f"{key}={value}" for key, value in fixed.items())]) + "\n"


@contextmanager
def nagios(folder: Path, services: str) -> Iterator[Path]:
    """Run it; gives the file in which it keeps what it found.

    Args:
        folder: An empty one.
        services: Commands and services, which use ``generic-service`` of the host ``localhost``.
    """
    (folder / "results").mkdir(parents=True)
    base, ours, settings = folder / "base.cfg", folder / "ours.cfg", folder / "nagios.cfg"
    base.write_text(_OBJECTS % {"days": "\n".join(f"    {day} 00:00-24:00" for day in _DAYS)})
    ours.write_text(services)
    settings.write_text(_settings(folder, [base, ours]))
    log = (folder / "output").open("w")
    process = subprocess.Popen(["nagios4", str(settings)], stdout=log, stderr=subprocess.STDOUT)
    try:
        yield folder / "status.dat"
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()


def await_service(status: Path, within_s: float) -> dict[str, str]:
    """Wait until the service was checked; gives what Nagios made of it."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        text = status.read_text(errors="replace") if status.exists() else ""
        if found := re.search(r"^servicestatus \{\n(.*?)^\t\}", text, re.DOTALL | re.MULTILINE):
            pairs = (line.strip().partition("=") for line in found[1].splitlines())
            values = {key: value for key, _, value in pairs}
            if values.get("has_been_checked") == "1":
                return values
        time.sleep(0.2)
    output = (status.parent / "output").read_text()
    raise TimeoutError(f"Nagios has checked nothing: {output[-2000:]}")
