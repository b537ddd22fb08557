"""Who may write what in etcd: a role for each machine, whose record alone it opens, and a user for each host.

Whoever may write a machine's record decides which host runs it. A host that is broken into can then take the machines
that it may hold anyway, and no others.
"""

from collections.abc import Sequence

_PREFIX = "/stealtime/protect/"
"""As ``crates/succession/src/register/etcd.rs`` names records."""


def lines_to_grant(machines: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """Give the lines, most of ``etcdctl``, that let hosts hold machines; a host's password is made in a file.

    Args:
        machines: Names of machines, as in their VM files.
        hosts: Those that may run or receive each of them.
    """
    roles = [
        line
        for machine in machines
        for line in (
            f"etcdctl role get {_role(machine)} >/dev/null 2>&1 || etcdctl role add {_role(machine)}",
            f"etcdctl role grant-permission {_role(machine)} readwrite {_PREFIX}{machine}",
        )
    ]
    # Whoever is a user already has a password, perhaps in a folder elsewhere.
    users = [
        f"etcdctl user get {_user(host)} >/dev/null 2>&1 || {{ [ -e {_password_file(host)} ] || "
        f"(umask 077; openssl rand -hex 24 >{_password_file(host)}); "
        f"etcdctl user add {_user(host)} --interactive=false <{_password_file(host)}; }}"
        for host in hosts
    ]
    grants = [f"etcdctl user grant-role {_user(host)} {_role(machine)}" for host in hosts for machine in machines]
    return [*roles, *users, *grants]


def lines_to_revoke(machines: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """Give those that take machines from hosts again; without machines, the hosts' users."""
    if not machines:
        return [f"etcdctl user delete {_user(host)}" for host in hosts]
    return [f"etcdctl user revoke-role {_user(host)} {_role(machine)}" for host in hosts for machine in machines]


def _role(machine: str) -> str:
    return f"stealtime-{machine}"


def _user(host: str) -> str:
    return f"stealtime-host-{host}"


def _password_file(host: str) -> str:
    return f"{_user(host)}.password"
