"""What is said to the login shell of a host over ssh, and what of its answer is ours. Pure.

Shells print more than was asked for: a banner in ``.bashrc``, a reminder in ``.cshrc``. Our output stands between two
lines that nobody else prints. Each command runs in ``sh``, whatever the login shell is.
"""

import re
import secrets
import shlex
from dataclasses import dataclass, field

from stealtime.lab.processors import CpuSets
from stealtime.vocabulary.cpu_lists import parse_cpu_list

ASK_HOST = "; ".join(
    [
        'echo "system: $(uname -s -r -m)"',
        "sed -n 's/^Cpus_allowed_list:/inherited:/p' /proc/self/status",
        'for name in isolated nohz_full; do echo "$name: $(cat /sys/devices/system/cpu/$name)"; done',
        "taskset -pc 0-8191 $$ >/dev/null || taskset -pc 0-1023 $$ >/dev/null",
        "sed -n 's/^Cpus_allowed_list:/granted:/p' /proc/self/status",
    ]
)
"""Which system it is and which CPUs it has, a line each. Lines may be missing: no ``taskset``, no ``/proc``."""

_LINE = re.compile(r"^(system|inherited|isolated|nohz_full|granted):[ \t]*(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class RemoteHost:
    """What a host said of itself."""

    system: str
    """``Linux``, the kernel's release, the machine; or whatever else it said."""
    cpus: CpuSets | None
    """None where it does not tell."""


@dataclass(frozen=True)
class MarkedShell:
    """A command whose output can be told from everything else that a shell says."""

    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def beginning(self) -> bytes:
        return f"stealtime-begin-{self.mark}\n".encode()

    def command(self, script: str) -> str:
        """Give what the login shell is to run, on one line for all of them: the script, its exit status kept."""
        end = f"printf '\\nstealtime-%s-{self.mark}\\n' end"
        return self._in_sh(f"{script}; status=$?; {end}; exit $status")

    def opening(self, script: str) -> str:
        """Give the same for a script whose output is read while it runs: with a line before it, and none after it."""
        return self._in_sh(script)

    def _in_sh(self, script: str) -> str:
        # The marks are put together there: a shell that echoes its commands does not print them by that.
        begin = f"printf 'stealtime-%s-{self.mark}\\n' begin"
        return f"sh -c {shlex.quote(f'{begin}; {script}')}"

    def output(self, said: str) -> str | None:
        """Give what the script printed, without white space at its ends; None if it never ran to its end."""
        _, begun, rest = said.partition(f"stealtime-begin-{self.mark}\n")
        output, ended, _ = rest.partition(f"\nstealtime-end-{self.mark}")
        return output.strip() if begun and ended else None


def parse_host(said: str) -> RemoteHost:
    """Read the answer to :data:`ASK_HOST`."""
    lines = dict(_LINE.findall(said))
    inherited = _cpus(lines.get("inherited", ""))
    if not inherited:
        return RemoteHost(lines.get("system", said).strip(), None)
    isolated, tickless = _cpus(lines.get("isolated", "")), _cpus(lines.get("nohz_full", ""))
    # Without taskset nobody knows what else is granted: the kernel would say so when the trial begins.
    granted = tuple(sorted({*inherited, *(_cpus(lines.get("granted", "")) or isolated)}))
    return RemoteHost(
        lines.get("system", "").strip(),
        CpuSets(
            inherited,
            granted,
            tuple(cpu for cpu in isolated if cpu in granted),
            tuple(cpu for cpu in tickless if cpu in granted),
        ),
    )


def _cpus(text: str) -> tuple[int, ...]:
    try:
        return tuple(parse_cpu_list(text))
    except ValueError:
        return ()
