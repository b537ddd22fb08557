"""The daemon that receives machines on this machine, and what it was told."""

import platform

from stealtime.protect.specification import HostSpec
from stealtime.protect.state import HostFolder, State, recorded_process
from stealtime.vocabulary.errors import StealtimeError


def daemon_of(state: State) -> tuple[HostFolder, HostSpec]:
    """Give the host whose daemon runs on this machine, and what it was told.

    Raises:
        StealtimeError: There is none, more than one, or one that no other host or phone reaches.
    """
    living = [host for host in state.hosts() if recorded_process(host.pid_file) is not None]
    if not living:
        raise StealtimeError(
            f"no daemon receives machines on {platform.node()}",
            hint="start it there as the same user: systemctl start stealtime-host (docs/protect.md, Two real hosts)",
        )
    if len(living) > 1:
        raise StealtimeError(
            f"the daemons of several hosts run on {platform.node()}: {', '.join(host.host for host in living)}",
            hint="end all but the one that the campaign shall use",
        )
    folder = living[0]
    told = HostSpec.model_validate_json(folder.config.read_text())
    if not told.listen.startswith("tcp:"):
        raise StealtimeError(
            f"the host {told.name!r} listens on {told.listen}, which no other host reaches",
            hint='give it listen = "tcp:ADDRESS:7460" and an identity in host.toml',
        )
    if told.bridge is None:
        raise StealtimeError(
            f"the guests of the host {told.name!r} reach nobody: it has no bridge", hint="name one in host.toml"
        )
    return folder, told
