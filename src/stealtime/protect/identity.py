"""Certificates for the link between hosts: one authority for all of them, one certificate for each.

Both sides show theirs and trust only what the authority signed. Elliptic curves (P-256), since that is what every TLS
library takes. The authority's key belongs to whoever adds hosts, on no host that runs machines.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stealtime.protect.vm_file import Identity
from stealtime.vocabulary.errors import StealtimeError

_AUTHORITY_DAYS = 3650
_HOST_DAYS = 825
"""The longest that common verifiers take for what is no authority (CA/Browser Forum, until 2020)."""

_AUTHORITY = "ca.pem"
_AUTHORITY_KEY = "ca.key"
_REVOKED = "revoked.pem"
_ISSUED = "issued.txt"
"""A line for each certificate: the host, and the serial number in hexadecimal. Renewed ones are good until they end."""

_SLACK = datetime.timedelta(days=1)
"""How far the clock of a host may be behind the one that certificates were made by: a time zone set wrong, too."""


@dataclass(frozen=True)
class _Authority:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_identity(folder: Path, host: str, addresses: Sequence[str]) -> Identity:
    """Make a host's certificate and key; the authority too where there is none in the folder.

    Args:
        folder: Holds ``ca.pem`` and ``ca.key``; gets ``HOST.pem`` and ``HOST.key``, and a line in ``issued.txt``.
        host: The host's name.
        addresses: Names and IP addresses by which others reach it; its own name is always among them.

    Raises:
        StealtimeError: The folder holds an authority that cannot be read, or cannot be written.
    """
    if f"{host}.pem" in (_AUTHORITY, _REVOKED):
        raise StealtimeError(f"a host cannot be named {host!r}: {host}.pem is the authority's", hint="choose another")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        authority = _read_authority(folder) if (folder / _AUTHORITY).exists() else _make_authority(folder)
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_alternative_name(address) for address in dict.fromkeys((host, *addresses))]
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(host, authority.certificate.subject, key, _HOST_DAYS)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(authority.key, hashes.SHA256())
        )
        _note_issued(folder, host, certificate.serial_number)
        _write_certificate(folder / f"{host}.pem", certificate)
        _write_key(folder / f"{host}.key", key)
    except OSError as error:
        raise StealtimeError(f"{error.filename or folder} cannot be written: {error.strerror}") from error
    return Identity(ca=folder / _AUTHORITY, certificate=folder / f"{host}.pem", key=folder / f"{host}.key")


def revoke_identity(folder: Path, host: str) -> Path:
    """Put all certificates that a host was given on the authority's list of those that are not to be trusted any more.

    Those that were renewed are among them: whoever has taken one with its key can show it until it ends.

    Args:
        folder: Holds ``ca.pem`` and ``ca.key``, ``HOST.pem`` or ``issued.txt``, and the list if there is one.
        host: The host's name.

    Returns:
        The list, for all hosts to name as ``revoked``.

    Raises:
        StealtimeError: There is no authority, or no certificate of the host; or the list cannot be written.
    """
    authority = _read_authority(folder)
    path = folder / _REVOKED
    try:
        issued = _issued(folder, host)
        before = x509.load_pem_x509_crl(path.read_bytes()) if path.exists() else ()
    except (OSError, ValueError) as error:
        raise StealtimeError(
            f"the certificate of {host} cannot be revoked: {error}", hint=f"{folder} must hold {host}.pem"
        ) from error
    if not issued:
        raise StealtimeError(
            f"the certificate of {host} cannot be revoked: it was given none",
            hint=f"{folder} holds those of other hosts",
        )
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.certificate.subject)
        .last_update(now - _SLACK)
        .next_update(now + datetime.timedelta(days=_AUTHORITY_DAYS))
        .add_extension(x509.CRLNumber(len(list(before)) + 1), critical=False)
    )
    serials = {one.serial_number: one.revocation_date_utc for one in before}
    for serial in issued:
        serials.setdefault(serial, now - _SLACK)
    for serial, date in serials.items():
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(date).build()
        )
    text = builder.sign(authority.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    try:
        path.write_bytes(text)
    except OSError as error:
        raise StealtimeError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _note_issued(folder: Path, host: str, serial: int) -> None:
    """Note a certificate before it is there, and the one that it replaces, which may be older than the notes."""
    known = _noted(folder, host)
    new = [one for one in (_present(folder, host), serial) if one is not None and one not in known]
    with (folder / _ISSUED).open("a") as notes:
        notes.writelines(f"{host} {one:x}\n" for one in new)


def _issued(folder: Path, host: str) -> list[int]:
    """Give the serial numbers of all certificates that a host was given."""
    present = _present(folder, host)
    return sorted({*_noted(folder, host), *([] if present is None else [present])})


def _noted(folder: Path, host: str) -> set[int]:
    notes = folder / _ISSUED
    try:
        words = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
        return {int(serial, 16) for name, serial in words if name == host}
    except ValueError as error:
        raise StealtimeError(
            f"{notes} is damaged: {error}", hint="each line is a host and the serial number of a certificate of it"
        ) from error


def _present(folder: Path, host: str) -> int | None:
    try:
        return x509.load_pem_x509_certificate((folder / f"{host}.pem").read_bytes()).serial_number
    except (FileNotFoundError, ValueError):
        return None


def _make_authority(folder: Path) -> _Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name("stealtime protect")
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder("stealtime protect", subject, key, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )
    _write_key(folder / _AUTHORITY_KEY, key)
    _write_certificate(folder / _AUTHORITY, certificate)
    return _Authority(certificate, key)


def _read_authority(folder: Path) -> _Authority:
    try:
        certificate = x509.load_pem_x509_certificate((folder / _AUTHORITY).read_bytes())
        key = serialization.load_pem_private_key((folder / _AUTHORITY_KEY).read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise StealtimeError(
            f"the authority in {folder} cannot be read: {error}",
            hint=f"it needs {_AUTHORITY} and {_AUTHORITY_KEY}; name an empty folder to create another authority",
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StealtimeError(f"{folder / _AUTHORITY_KEY} holds no key of an elliptic curve, so it is not ours")
    return _Authority(certificate, key)


def _builder(subject: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    begin = datetime.datetime.now(datetime.UTC) - _SLACK
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=days))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _write_certificate(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
