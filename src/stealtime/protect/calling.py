"""Having a machine handed over to this host, where its standby is."""

from stealtime.protect.control import ControlClient
from stealtime.protect.members import await_status, read_status
from stealtime.protect.state import MemberFolder
from stealtime.protect.status import RUNS_NOW, MemberStatus
from stealtime.vocabulary.errors import StealtimeError


def call(standby: MemberFolder, within_s: float = 60.0) -> MemberStatus:
    """Ask the member that runs a machine to hand it over to its standby here, and wait until it runs here.

    Returns:
        How the member stands that has it now.

    Raises:
        StealtimeError: It cannot be asked from here, or did not come; then it runs where it ran.
    """
    before = read_status(standby)
    if not before.protected:
        raise StealtimeError(
            f"the VM {standby.vm!r} is not protected, so its standby {standby.host!r} cannot take it over",
            hint="wait until `stealtime protect status` says that it is",
        )
    ControlClient(standby.control_socket).failover()
    found = await_status(standby, None, until=lambda status: status.role in RUNS_NOW, within_s=within_s)
    if found is not None:
        return found
    where = before.standby.name if before.standby is not None else "the other host"
    raise StealtimeError(
        f"the VM {standby.vm!r} did not come to {standby.host!r} within {within_s:g} s",
        hint=f"see `stealtime protect status {standby.vm}` there and on {where}",
    )
