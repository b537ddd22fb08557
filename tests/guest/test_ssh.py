"""The ssh platform against a server on loopback that really executes what it is told."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio
import ssh_server
from asyncssh.connection import SSHConnection

from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.ssh import SshPlatform
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import RunTrial, TickProbe

pytestmark = [pytest.mark.guest, pytest.mark.beside]

CPUS = sorted(os.sched_getaffinity(0))


@dataclass
class Server:
    port: int
    known_hosts: Path
    host_key: str
    remote_temporary: Path
    connections: list[SSHConnection]
    greeting: bytes = b""
    """What its login shell says before it does anything."""

    def abort_connections(self) -> None:
        for connection in self.connections:
            connection.abort()

    @property
    def platform(self) -> SshPlatform:
        return SshPlatform.parse(f"ssh:someone@127.0.0.1:{self.port}")

    def left_behind(self) -> list[str]:
        return sorted(path.name for path in self.remote_temporary.iterdir())


@pytest_asyncio.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    home, remote_temporary = tmp_path / "home", tmp_path / "remote"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    remote_temporary.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    user_key = asyncssh.generate_private_key("ssh-ed25519")
    user_key.write_private_key(home / ".ssh/id_ed25519")
    (tmp_path / "authorized").write_bytes(user_key.export_public_key())
    host_key = asyncssh.generate_private_key("ssh-ed25519")

    connections: list[SSHConnection] = []
    served: list[Server] = []

    async def execute(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        connections.append(process.channel.get_connection())
        environment = {**os.environ, "TMPDIR": str(remote_temporary)}
        await ssh_server.execute(process, environment, served[0].greeting)

    listener = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[host_key],
        authorized_client_keys=str(tmp_path / "authorized"),
        process_factory=execute,
        encoding=None,
    )
    public = host_key.export_public_key().decode().strip()
    known_hosts = home / ".ssh/known_hosts"
    known_hosts.write_text(f"[127.0.0.1]:{listener.get_port()} {public}\n")
    async with listener:
        served.append(Server(listener.get_port(), known_hosts, public, remote_temporary, connections))
        yield served[0]


def request_for(folder: Path) -> MachineRequest:
    return MachineRequest(vcpu_cpus=((CPUS[-1],),), housekeeping_cpus=(CPUS[0],), folder=folder, boot_timeout_s=20)


async def test_a_machine_over_ssh_measures_and_nothing_is_left_there(server: Server, tmp_path: Path) -> None:
    availability = await server.platform.check()
    assert availability.usable, availability
    assert "Linux" in availability.reason
    async with server.platform.boot(request_for(tmp_path)) as machine:
        assert len(server.left_behind()) == 1
        alignment = await machine.connection.exchange_clocks()
        # It is the same machine in truth: the offset is nothing, to within the bound.
        assert abs(alignment.machine_minus_host_ns) <= alignment.error_ns
        calibrated = await machine.connection.calibrate(68_000, machine.measured_cpus[-1], 50)
        probe = TickProbe(iterations=calibrated.iterations)
        request = RunTrial(trial=1, probe=probe, cpus=list(machine.measured_cpus), priority=50, duration_ns=200_000_000)
        result = await machine.connection.run_trial(request, tmp_path, deadline_s=30)
        assert result.outcome.counters["recorded"] > 100
        assert machine.exit_reason() is None
    assert server.left_behind() == []


async def test_a_failure_while_measuring_leaves_nothing_there(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with server.platform.boot(request_for(tmp_path)):
            raise ZeroDivisionError
    assert server.left_behind() == []


async def test_a_cancelled_run_leaves_nothing_there(server: Server, tmp_path: Path) -> None:
    booted = asyncio.Event()

    async def run() -> None:
        async with server.platform.boot(request_for(tmp_path)):
            booted.set()
            await asyncio.sleep(600)

    task = asyncio.ensure_future(run())
    async with asyncio.timeout(30):
        await booted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert server.left_behind() == []


async def test_a_lost_connection_is_told_and_leaves_nothing_there(server: Server, tmp_path: Path) -> None:
    async with server.platform.boot(request_for(tmp_path)) as machine:
        server.abort_connections()
        with pytest.raises(StealtimeError, match="closed its channel while exchanging clocks") as caught:
            await machine.connection.exchange_clocks()
    assert caught.value.hint
    async with asyncio.timeout(10):
        while server.left_behind():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(0.02)


class Link:
    """A cable between here and a server, which can be cut: what is sent is lost then, and nobody is told."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_cut = False
        self._writers: list[asyncio.StreamWriter] = []

    def cut(self) -> None:
        self._is_cut = True

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers += [writer, back]
        await asyncio.gather(self._carry(reader, back), self._carry(there, writer))

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while piece := await source.read(1 << 16):
                if not self._is_cut:
                    target.write(piece)
                    await target.drain()

    def end(self) -> None:
        for writer in self._writers:
            writer.close()


@pytest.mark.parametrize("cpus", [(CPUS[-1],), tuple(CPUS)], ids=["one CPU", "all CPUs"])
async def test_a_link_that_is_cut_is_noticed_long_before_the_trial_is_over(
    server: Server, tmp_path: Path, cpus: tuple[int, ...]
) -> None:
    link = Link(server.port)
    listener = await asyncio.start_server(link.forward, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    server.known_hosts.write_text(f"[127.0.0.1]:{port} {server.host_key}\n")
    far = SshPlatform.parse(f"ssh:someone@127.0.0.1:{port}")
    asked = replace(request_for(tmp_path), lost_after_s=2.0, vcpu_cpus=(cpus,))
    an_hour = RunTrial(
        trial=1, probe=TickProbe(iterations=100_000), cpus=list(cpus), priority=0, duration_ns=3_600_000_000_000
    )

    async def measure() -> None:
        async with far.boot(asked) as machine:
            asyncio.get_running_loop().call_later(0.5, link.cut)
            await machine.connection.run_trial(an_hour, tmp_path, deadline_s=3700)

    async with asyncio.timeout(60):
        with pytest.raises(StealtimeError, match="closed its channel") as caught:
            await measure()
    assert caught.value.hint
    server.abort_connections()
    link.end()
    listener.close()


async def test_a_login_shell_that_greets_does_no_harm(server: Server, tmp_path: Path) -> None:
    server.greeting = b"Welcome to board\nLast login: never\n"
    availability = await server.platform.check()
    assert availability.usable, availability
    assert availability.reason.startswith("127.0.0.1 is Linux ")
    assert availability.cpus is not None
    assert availability.cpus.granted == tuple(CPUS)
    async with server.platform.boot(request_for(tmp_path)) as machine:
        assert (await machine.connection.exchange_clocks(count=1)).error_ns > 0
    assert server.left_behind() == []


async def test_a_shell_that_only_talks_is_a_sentence(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(process: "asyncssh.SSHServerProcess[bytes]", *_: object) -> None:
        process.stdout.write(b"This account is not available.\n")
        process.exit(0)

    monkeypatch.setattr(ssh_server, "execute", talk)
    reason, hint = await refused(server)
    assert "did not run the command but said 'This account is not available.'" in reason
    assert "echo yes" in hint


async def refused(server: Server) -> tuple[str, str]:
    availability = await server.platform.check()
    assert not availability.usable
    return availability.reason, availability.hint or ""


async def test_a_host_key_that_is_not_known_is_a_sentence(server: Server) -> None:
    server.known_hosts.write_text("")
    reason, hint = await refused(server)
    assert "the key of 127.0.0.1 is not trusted" in reason
    assert f"-p {server.port} someone@127.0.0.1" in hint


async def test_a_key_that_is_not_authorized_is_a_sentence(server: Server) -> None:
    another = asyncssh.generate_private_key("ssh-ed25519")
    another.write_private_key(server.known_hosts.parent / "id_ed25519")
    reason, hint = await refused(server)
    assert "127.0.0.1 refuses the user someone" in reason
    assert "ssh-copy-id" in hint


async def test_a_host_that_does_not_answer_is_a_sentence(server: Server) -> None:
    server.port = 1
    reason, hint = await refused(server)
    assert "127.0.0.1 cannot be reached over ssh" in reason
    assert "refused" in reason.lower()
    assert "ssh -p 1 someone@127.0.0.1 true" in hint


async def test_an_agent_that_cannot_be_executed_is_a_sentence(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = tmp_path / "no-program"
    agent.write_bytes(b"\x7fELF but not really")
    agent.chmod(0o755)
    monkeypatch.setenv("STEALTIME_AGENT", str(agent))
    with pytest.raises(StealtimeError, match=r"the agent on 127\.0\.0\.1 did not start") as caught:
        async with server.platform.boot(request_for(tmp_path)):
            pytest.fail("it cannot have started")
    assert "noexec" in (caught.value.hint or "")
    assert server.left_behind() == []
