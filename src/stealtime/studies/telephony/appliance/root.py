"""The appliance's file tree: Kamailio, rtpengine and what they load, out of Debian packages that are never installed.

apt resolves the packages against an empty list of installed ones, so the tree is the same on every host with the same
lists. Of 383 MB that they unpack to, only the programs, the wanted modules and the libraries that the tree's own
dynamic linker names for them are kept. The tree serves natively, below ``chroot``, and packed in guests.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stealtime.lab.image.cache import cache_folder, obtain_entry, read_entry, write_atomically
from stealtime.lab.image.debian_programs import (
    INTERPRETER,
    LIBRARIES,
    copy_into,
    libraries_of,
    resolve_packages,
    unpack_packages,
    unpacked_file,
)

Role = Literal["both", "signalling", "media", "replica", "store", "front", "names"]
"""What a server does: route SIP and keep registrations, relay media, or both; ``replica`` does both and shares what it
knows with another one, calls by way of the ``store``. A ``front`` keeps nothing and hands each request on to one of
several servers; phones learn of fronts from ``names``."""

KAMAILIO = "usr/sbin/kamailio"
RTPENGINE = "usr/bin/rtpengine"
KEEPALIVED = "usr/sbin/keepalived"
REDIS = "usr/bin/redis-server"
NSD = "usr/sbin/nsd"
KAMCMD = "usr/sbin/kamcmd"
"""Tells a running Kamailio to read its destinations anew."""
BUSYBOX = "bin/busybox"
KAMAILIO_MODULES = (
    *("tm", "sl", "rr", "pv", "maxfwd", "textops", "siputils", "xlog"),
    *("usrloc", "registrar", "auth", "rtpengine"),
)
REPLICATION_MODULES = ("dmq", "dmq_usrloc")
FRONT_MODULES = ("sl", "rr", "pv", "maxfwd", "textops", "siputils", "ctl", "dispatcher")
MODULES_FOLDER = "usr/lib/x86_64-linux-gnu/kamailio/modules"

_PACKAGES: Mapping[Role, tuple[str, ...]] = {
    "both": ("kamailio", "rtpengine-daemon", "busybox-static"),
    "signalling": ("kamailio", "busybox-static"),
    "media": ("rtpengine-daemon", "busybox-static"),
    "replica": ("kamailio", "rtpengine-daemon", "keepalived", "busybox-static"),
    "store": ("redis-server", "redis-tools", "busybox-static"),
    "front": ("kamailio", "busybox-static"),
    "names": ("nsd", "busybox-static"),
}
_OWN_LIBRARY_FOLDERS = ("usr/lib/x86_64-linux-gnu/kamailio",)
_PROTOCOLS = "tcp 6 TCP\nudp 17 UDP\n"
"""``/etc/protocols``: without it Kamailio cannot set options of TCP."""
_EMPTY_FOLDERS = ("proc", "sys", "dev", "tmp", "run", "etc/stealtime")
"""What is mounted there differs between a guest and a native server."""
_FORMAT_VERSION = 2
"""Rises when the layout of the tree changes, so that older ones are made anew."""
_WHAT = "the appliance"


@dataclass(frozen=True)
class Root:
    """A file tree that is ready to run, read-only."""

    role: Role
    tree: Path
    key: str
    """Follows from what it is made of."""
    packages: Mapping[str, str]
    """The versions of the programs' packages."""


def obtain_root(role: Role) -> Root:
    """Give the tree of a role, made first if it is not in the cache.

    Raises:
        StealtimeError: Packages cannot be fetched, or a program lacks something.
    """
    folder = cache_folder() / "appliance"
    lookup = folder / f"lookup-{role}.json"
    wanted = _content(role)
    remembered = _remembered(lookup, wanted)
    if remembered is not None and (entry := read_entry(folder / remembered)) is not None:
        return Root(role, folder / remembered / "tree", remembered, json.loads(entry.facts["packages"]))
    packages = resolve_packages(_PACKAGES[role], _WHAT)
    key = hashlib.sha256(json.dumps([wanted, packages], sort_keys=True).encode()).hexdigest()[:32]

    def build(partial: Path) -> tuple[list[str], Mapping[str, str]]:
        tree = partial / "tree"
        with tempfile.TemporaryDirectory(prefix="download-", dir=partial.parent) as temporary:
            unpacked = Path(temporary) / "unpacked"
            unpack_packages(packages, unpacked, _WHAT)
            _keep(role, unpacked, tree)
        own = {name: packages[name] for name in _PACKAGES[role]}
        names = sorted(str(path.relative_to(partial)) for path in tree.rglob("*") if path.is_file())
        return names, {"packages": json.dumps(own)}

    entry = obtain_entry(folder / key, build)
    write_atomically(lookup, json.dumps({"wanted": wanted, "key": key}))
    return Root(role, folder / key / "tree", key, json.loads(entry.facts["packages"]))


def programs_of(role: Role) -> tuple[str, ...]:
    """Give the programs of a role, by their paths in the tree."""
    programs: Mapping[Role, tuple[str, ...]] = {
        "both": (RTPENGINE, KAMAILIO),
        "signalling": (KAMAILIO,),
        "media": (RTPENGINE,),
        "replica": (RTPENGINE, KAMAILIO, KEEPALIVED),
        "store": (REDIS,),
        "front": (KAMAILIO, KAMCMD),
        "names": (NSD,),
    }
    return programs[role]


def modules_of(role: Role) -> tuple[str, ...]:
    """Give the names of the modules that Kamailio may load in a role."""
    if KAMAILIO not in programs_of(role):
        return ()
    if role == "front":
        return FRONT_MODULES
    return (*KAMAILIO_MODULES, *REPLICATION_MODULES) if role == "replica" else KAMAILIO_MODULES


def _content(role: Role) -> dict[str, object]:
    return {"format": _FORMAT_VERSION, "packages": sorted(_PACKAGES[role]), "modules": sorted(modules_of(role))}


def _remembered(lookup: Path, wanted: Mapping[str, object]) -> str | None:
    """Give what the same wish led to before: a host without a network has its appliance all the same."""
    try:
        memory = json.loads(lookup.read_text())
        return str(memory["key"]) if memory["wanted"] == wanted else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(role: Role, unpacked: Path, tree: Path) -> None:
    kept = [BUSYBOX, INTERPRETER, *programs_of(role)]
    kept += [f"{MODULES_FOLDER}/{name}.so" for name in modules_of(role)]
    for name in kept:
        copy_into(tree, name, unpacked_file(unpacked, name, _WHAT))
    loaded = [unpacked / name for name in kept if name not in (BUSYBOX, INTERPRETER)]
    for name, source in libraries_of(loaded, unpacked, _WHAT, _OWN_LIBRARY_FOLDERS).items():
        copy_into(tree, f"{LIBRARIES}/{name}", source)
    for name in _EMPTY_FOLDERS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    (tree / "etc/protocols").write_text(_PROTOCOLS)
    # As packing sets them, later: what the cache has noted of them stays true.
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (0, 0))
