"""``HOST.toml``: a host that receives machines, as a person writes it for ``stealtime protect host``."""

import ipaddress
import os
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, field_validator, model_validator

from stealtime.lab.image.cache import cache_folder
from stealtime.lab.platforms.qemu_program import find_qemu
from stealtime.protect.disk_links import default_folder
from stealtime.protect.endpoint import HOST_NAME, StandbyHost, checked_endpoint, describe_problem
from stealtime.protect.paths import with_absolute_paths
from stealtime.protect.qemu_user import QemuUserName
from stealtime.protect.specification import HostSpec, qemu_user_spec, register_spec
from stealtime.protect.state import State, this_host
from stealtime.protect.vm_file import INTERFACE_NAME, Identity, Register
from stealtime.vocabulary.own_text import read_own_text
from stealtime.vocabulary.toml_errors import explain, parse
from stealtime.vocabulary.toml_table import Table

_SCHEMA_HINT = "`stealtime schema host` shows what each key takes"


class HostFile(Table):
    """A host that receives machines."""

    name: str | None = Field(default=None, pattern=HOST_NAME)
    """The name by which ``standby_hosts`` of VM files refers to this host; default: its hostname."""
    listen: str | None = None
    """``tcp:0.0.0.0:7460`` or ``unix:/path``; default: a socket for this machine only."""
    bridge: str | None = Field(default=None, pattern=INTERFACE_NAME)
    """The bridge that the TAPs of received machines join on this host."""
    qemu: Path | None = None
    """The QEMU that runs received machines; default: the one on PATH."""
    qemu_user: QemuUserName | None = None
    """The user that runs QEMU; default: a separate user for each QEMU, with no rights but to use KVM."""
    images: list[Path] = Field(default=[])
    """Folders that received machines may boot from, besides ``/boot`` and stealtime's cache; a guest can read them."""
    disks: Path | None = None
    """The folder for the disk images of received machines; default: ``/var/lib/stealtime/disks/NAME``."""
    register_: Register = Field(default=Register(), alias="register")
    """The register that the active members use, too."""
    identity: Identity | None = None
    """This host's certificate, for ``tcp:``."""
    copies: int = Field(default=2, ge=1, le=64)
    """How many machines are copied to this host at a time; others wait, by ``copy_order`` of their VM files."""
    metrics: str = "127.0.0.1"
    """The address at which machines here serve Prometheus, running or standing by, each on the port of its VM file."""
    allow_faults: bool = False
    """Let a test break a member on purpose, over its control socket."""

    @field_validator("qemu")
    @classmethod
    def _is_a_program(cls, path: Path | None) -> Path | None:
        if path is not None and not (path.is_file() and os.access(path, os.X_OK)):
            raise ValueError(f"{path} is not an executable file")
        return path

    @field_validator("images")
    @classmethod
    def _are_folders(cls, paths: list[Path]) -> list[Path]:
        for path in paths:
            if not path.is_dir():
                raise ValueError(f"{path} is not a folder")
        return paths

    @field_validator("listen")
    @classmethod
    def _known_form(cls, endpoint: str | None) -> str | None:
        return checked_endpoint(endpoint) if endpoint is not None else None

    @field_validator("metrics")
    @classmethod
    def _an_address(cls, address: str) -> str:
        try:
            return str(ipaddress.ip_address(address))
        except ValueError:
            raise ValueError(f"{address!r} is not an address of this host such as 10.0.0.2") from None

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.listen is not None:
            host = StandbyHost(name="host", endpoint=self.listen)
            problem = describe_problem([host], has_identity=self.identity is not None)
            if problem is not None:
                raise ValueError(problem)
        return self


def read_host_file(path: Path) -> HostFile:
    """Read a ``HOST.toml``; relative paths in it are relative to its folder.

    Raises:
        UsageError: It cannot be read, or is wrong; the message names the line.
    """
    text = read_own_text(path, "host file")
    document = parse(text, str(path))
    try:
        return HostFile.model_validate(with_absolute_paths(document, path.absolute().parent))
    except ValidationError as error:
        raise explain(error, document, text, str(path), HostFile, _SCHEMA_HINT) from error


def host_spec(host: HostFile, state: State) -> HostSpec:
    """Give the specification of a host's daemon; makes the host's folder.

    Raises:
        StealtimeError: There is no QEMU, or no folder.
    """
    name = host.name or this_host()
    folder = state.host(name)
    return HostSpec(
        name=name,
        listen=host.listen or f"unix:{folder.socket}",
        bridge=host.bridge,
        register_=register_spec(host.register_, state.register),
        identity=host.identity,
        folder=folder.path,
        qemu=host.qemu or Path(find_qemu()),
        qemu_user=qemu_user_spec(host.qemu_user),
        images=(*host.images, cache_folder(), Path("/boot")),
        disks=host.disks or default_folder(state.path, name),
        copies=host.copies,
        metrics=host.metrics,
        allow_faults=host.allow_faults,
    )
