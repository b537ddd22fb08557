"""Certificates for hosts, tried with a TLS connection that asks both sides for theirs."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
from cryptography import x509

from stealtime.protect.identity import make_identity, revoke_identity
from stealtime.protect.vm_file import Identity
from stealtime.vocabulary.errors import StealtimeError


def context_of(identity: Identity, purpose: ssl.Purpose) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=str(identity.ca))
    context.load_cert_chain(identity.certificate, identity.key)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def shake_hands(server: Identity, client: Identity, name: str) -> None:
    """Connect with each side's certificate; raises what either side complains of."""
    ours, theirs = socket.socketpair()
    problems: list[OSError] = []

    def serve() -> None:
        try:
            with context_of(server, ssl.Purpose.CLIENT_AUTH).wrap_socket(theirs, server_side=True) as stream:
                stream.sendall(stream.recv(10))
        except OSError as error:
            problems.append(error)
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with context_of(client, ssl.Purpose.SERVER_AUTH).wrap_socket(ours, server_hostname=name) as stream:
            stream.sendall(b"hello")
            if stream.recv(10) != b"hello":
                raise OSError("no answer")
    finally:
        ours.close()
        thread.join()
    if problems:
        raise problems[0]


def test_hosts_of_one_authority_trust_each_other_by_name_and_address(tmp_path: Path) -> None:
    first = make_identity(tmp_path, "a", ["10.77.2.1"])
    second = make_identity(tmp_path, "b", ["10.77.2.2", "b.lan"])
    for name in ("b", "b.lan", "10.77.2.2"):
        shake_hands(second, first, name)
    with pytest.raises(OSError, match="IP address mismatch"):
        shake_hands(second, first, "10.77.2.1")


def test_a_host_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    ours = make_identity(tmp_path / "ours", "a", [])
    stranger = make_identity(tmp_path / "others", "a", [])
    with pytest.raises(OSError, match=r"(?i)certificate|alert"):
        shake_hands(stranger, ours, "a")
    with pytest.raises(OSError, match=r"(?i)certificate|answer|alert|EOF|closed|reset|broken"):
        shake_hands(ours, stranger, "a")


def test_keys_are_their_owners_alone_and_a_new_certificate_replaces_the_old(tmp_path: Path) -> None:
    first = make_identity(tmp_path, "a", [])
    before = first.key.read_bytes()
    again = make_identity(tmp_path, "a", [])
    assert again == first
    assert again.key.read_bytes() != before
    for key in ("a.key", "ca.key"):
        assert (tmp_path / key).stat().st_mode & 0o777 == 0o600
    shake_hands(again, make_identity(tmp_path, "b", []), "a")


def test_an_authority_without_its_key_is_told(tmp_path: Path) -> None:
    make_identity(tmp_path, "a", [])
    (tmp_path / "ca.key").unlink()
    with pytest.raises(StealtimeError, match="the authority in"):
        make_identity(tmp_path, "b", [])


def test_what_was_revoked_stays_so_and_what_is_made_anew_is_not(tmp_path: Path) -> None:
    first, second = make_identity(tmp_path, "a", []), make_identity(tmp_path, "b", [])
    revoke_identity(tmp_path, "a")
    path = revoke_identity(tmp_path, "b")
    assert revoke_identity(tmp_path, "b") == path, "once more is no more"
    listed = x509.load_pem_x509_crl(path.read_bytes())
    serials = [x509.load_pem_x509_certificate(one.certificate.read_bytes()).serial_number for one in (first, second)]
    assert sorted(one.serial_number for one in listed) == sorted(serials)
    authority = x509.load_pem_x509_certificate(first.ca.read_bytes())
    assert listed.is_signature_valid(authority.public_key())  # type: ignore[arg-type]
    renewed = make_identity(tmp_path, "b", [])
    serial = x509.load_pem_x509_certificate(renewed.certificate.read_bytes()).serial_number
    assert listed.get_revoked_certificate_by_serial_number(serial) is None


def test_a_certificate_that_is_not_there_cannot_be_revoked(tmp_path: Path) -> None:
    make_identity(tmp_path, "a", [])
    with pytest.raises(StealtimeError, match=r"the certificate of c cannot be revoked"):
        revoke_identity(tmp_path, "c")


def test_a_certificate_that_was_renewed_is_revoked_with_the_others(tmp_path: Path) -> None:
    def serial_of(identity: Identity) -> int:
        return x509.load_pem_x509_certificate(identity.certificate.read_bytes()).serial_number

    first = serial_of(make_identity(tmp_path, "b", []))
    # As a release made it that did not note what it issued.
    (tmp_path / "issued.txt").unlink()
    renewed, again, other = (serial_of(make_identity(tmp_path, name, [])) for name in ("b", "b", "a"))
    listed = x509.load_pem_x509_crl(revoke_identity(tmp_path, "b").read_bytes())
    assert {one.serial_number for one in listed} == {first, renewed, again}
    fresh = serial_of(make_identity(tmp_path, "b", []))
    for trusted in (other, fresh):
        assert listed.get_revoked_certificate_by_serial_number(trusted) is None


def test_notes_that_are_damaged_are_told(tmp_path: Path) -> None:
    make_identity(tmp_path, "b", [])
    for text in ("b\n", "b no-number\n", "\xff"):
        (tmp_path / "issued.txt").write_text(text, "latin-1")
        for act in (lambda: revoke_identity(tmp_path, "b"), lambda: make_identity(tmp_path, "b", [])):
            with pytest.raises(StealtimeError, match=r"issued\.txt is damaged"):
                act()


@pytest.mark.parametrize("name", ["ca", "revoked"])
def test_no_host_takes_the_files_of_the_authority(tmp_path: Path, name: str) -> None:
    make_identity(tmp_path, "a", [])
    before = (tmp_path / "ca.pem").read_bytes()
    with pytest.raises(StealtimeError, match="a host cannot be named"):
        make_identity(tmp_path, name, [])
    assert (tmp_path / "ca.pem").read_bytes() == before
