"""A site on one machine: hosts in network namespaces with a Dask worker each, a scheduler among them, all over TLS."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import psutil
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from stealtime.hosts.laboratory import CLIENT, Laboratory, Node

ROOT = Path(__file__).parents[2]
HOSTS = ("a", "b", "c")
_PORT = 8786
_START_S = 60.0
_FILES = ("ca.pem", "own.pem", "own.key")


class FleetSite:
    """The scheduler is on the node ``client``; each host's worker is named after it.

    Args:
        laboratory: Its hosts are servers without a machine: they have an address on the network ``clients``.
    """

    def __init__(self, laboratory: Laboratory, folder: Path) -> None:
        self.laboratory, self.folder = laboratory, folder
        self.address = f"tls://{laboratory.client.address('clients')}:{_PORT}"
        self.workers: dict[str, psutil.Popen] = {}
        make_certificates(folder, [_address(node) for node in self._nodes()])
        self.scheduler = self._start(
            CLIENT,
            [
                "scheduler",
                "--host",
                laboratory.client.address("clients"),
                "--protocol",
                "tls",
                "--port",
                str(_PORT),
                "--no-dashboard",
            ],
        )
        self._await("Scheduler at:", "scheduler", self.scheduler)

    def _nodes(self) -> list[Node]:
        return [self.laboratory.client, *(self.laboratory.nodes[name] for name in HOSTS)]

    def start_worker(self, name: str, before: Sequence[str] = ()) -> None:
        """Start a host's worker, or start it again; ``before`` goes before its command."""
        local = self.folder / f"dask-{name}"
        argv = ["worker", self.address, "--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        argv += ["--local-directory", str(local), "--preload", "stealtime.fleet.preload"]
        self.workers[name] = self._start(name, argv, before)
        self._await("Registered to:", name, self.workers[name])

    def kill_worker(self, name: str) -> None:
        """Take a host away from one moment to the next: its worker and what it measures with."""
        self.workers[name].kill()
        self.laboratory.power_off(name)
        self.workers[name].wait()

    def data_of(self, name: str) -> Path:
        return self.folder / f"data-{name}"

    def credentials(self) -> list[str]:
        options = ("--tls-ca-file", "--tls-cert", "--tls-key")
        return [one for option, name in zip(options, _FILES, strict=True) for one in (option, str(self.folder / name))]

    def command(self, *arguments: str, with_credentials: bool = True) -> list[str]:
        """Give the command line of a fleet run by this site's scheduler."""
        stealtime = [sys.executable, "-c", "from stealtime.start import main; main()"]
        more = ["--scheduler", self.address, *(self.credentials() if with_credentials else [])]
        return [*self.laboratory.client.prefix, *stealtime, "fleet", "run", *arguments, *more]

    def run(self, *arguments: str, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            env=self.environment("client"),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def environment(self, name: str) -> dict[str, str]:
        """Give what a process on a host is started with: an identity and a folder for runs of its own."""
        ca, certificate, key = (str(self.folder / one) for one in _FILES)
        tls = "DASK_DISTRIBUTED__COMM__TLS"
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "XDG_DATA_HOME": str(self.data_of(name)),
            "STEALTIME_HOST": name,
            "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
            "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "1h",
            f"{tls}__CA_FILE": ca,
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True",
            **{f"{tls}__{role}__CERT": certificate for role in ("SCHEDULER", "WORKER", "CLIENT")},
            **{f"{tls}__{role}__KEY": key for role in ("SCHEDULER", "WORKER", "CLIENT")},
        }

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def end(self) -> None:
        """End workers and scheduler as a site does it."""
        for process in [*self.workers.values(), self.scheduler]:
            if process.is_running():
                process.send_signal(signal.SIGTERM)
        for process in [*self.workers.values(), self.scheduler]:
            try:
                process.wait(timeout=15)
            except psutil.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, argv: list[str], before: Sequence[str] = ()) -> psutil.Popen:
        what = "scheduler" if name == CLIENT else name
        log = (self.folder / f"{what}.log").open("wb")
        command = [*before, sys.executable, "-m", "dask", *argv]
        with log:
            return self.laboratory.start(
                name, command, environment=self.environment(name), stdout=log, stderr=subprocess.STDOUT
            )

    def _await(self, sign: str, name: str, process: psutil.Popen) -> None:
        deadline = time.monotonic() + _START_S
        while sign not in self.log(name):
            if process.poll() is not None or time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not start: {self.log(name)[-3000:]}")
            time.sleep(0.1)


@contextmanager
def fleet_site(folder: Path, workers: Sequence[str] = HOSTS) -> Iterator[FleetSite]:
    """Run a site of three hosts with a worker on each, or on some of them."""
    with Laboratory(hosts=(), servers=HOSTS) as laboratory:
        site = FleetSite(laboratory, folder)
        try:
            for name in workers:
                site.start_worker(name)
            yield site
        finally:
            site.end()


def _address(node: Node) -> str:
    return node.address("clients")


def make_certificates(folder: Path, addresses: list[str]) -> None:
    """Write an authority and one certificate for all of a site, in PEM."""
    authority = ec.generate_private_key(ec.SECP256R1())
    own = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "site")])
    usage = x509.BasicConstraints(ca=True, path_length=0)
    signing = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = _built(issuer, issuer, authority.public_key()).add_extension(usage, critical=True)
    ca = ca.add_extension(signing, critical=True)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dask")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address(one)) for one in addresses])
    certificate = _built(subject, issuer, own.public_key()).add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.sign(authority, hashes.SHA256()).public_bytes(pem))
    (folder / "own.pem").write_bytes(certificate.sign(authority, hashes.SHA256()).public_bytes(pem))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "own.key").write_bytes(own.private_bytes(pem, *plain))


def _built(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    begin = datetime.now(UTC) - timedelta(minutes=5)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(begin)
    return builder.not_valid_after(begin + timedelta(days=1))
