"""The control plane's end of the channel to an agent.

One request at a time; every answer has a deadline; whatever goes wrong (a closed or silent channel, bytes that are no
frames, a message out of place, the agent's own ``failed``) comes out as one ``StealtimeError``, never as a hang.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

import stealtime
from stealtime.vocabulary.alignment import Alignment, ClockExchange, align
from stealtime.vocabulary.errors import REINSTALL_HINT, StealtimeError
from stealtime.wire.byte_stream import ByteReader, ByteWriter
from stealtime.wire.frame import Frame, FrameDecoder, FrameError, FrameKind, encode_frame
from stealtime.wire.incoming import NOBODY, IncomingTables, Listener, longest_silence_s
from stealtime.wire.load import LoadDone, LoadRequest, LoadStarted, StartLoad, StopLoad
from stealtime.wire.message import (
    PROTOCOL_VERSION,
    AgentHello,
    Calibrate,
    Calibrated,
    CancelTrial,
    Checkpoint,
    ClockAnswer,
    ControlHello,
    ExchangeClock,
    Failed,
    PartStored,
    Progress,
    RunTrial,
    Shutdown,
    StartTracing,
    StopTracing,
    StreamBegin,
    StreamEnd,
    StreamName,
    TraceRequest,
    TracingDone,
    TracingStarted,
    TrialDone,
    from_agent,
)
from stealtime.wire.program import ListThreads, ProgramStarted, ProgramThread, StartProgram, ThreadsListed
from stealtime.wire.results import LoadResult, TraceResult, TrialResult
from stealtime.wire.spool import TableSpool

READ_BYTES = 1 << 18
"""How much is taken from the channel at once."""

CLOCK_DEADLINE_S = 10.0
"""A clock exchange takes a few ms under TCG; a machine that needs 10 s for one is gone."""

CALIBRATION_DEADLINE_S = 60.0
"""A generous limit, not a measured one: a machine that needs longer for a few hundred short loops is gone."""

LOAD_DEADLINE_S = 60.0
"""A load starts when its memory is touched and ends after its current step: ms. A neighbour that shares its CPU with
others, under an emulator and a quota, may need seconds."""

TRACING_DEADLINE_S = 60.0
"""To switch on the events takes 0.1 s, on a kernel that has to patch its code for each on all of many CPUs longer."""

STREAM_SILENCE_S = 30.0
"""The longest pause between two pieces of a table."""


_Answer = TypeVar("_Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class _Deadline:
    """A moment of the event loop's clock, and how far away it was when it was set."""

    at: float
    within_s: float
    is_silence: bool = False
    """Whether every byte that comes puts it off: a slow line (0.1 MB/s) needs long for one large frame."""

    @classmethod
    def within(cls, within_s: float, *, is_silence: bool = False) -> "_Deadline":
        return cls(asyncio.get_running_loop().time() + within_s, within_s, is_silence)


async def _nothing_known() -> str | None:
    return None


class AgentConnection:
    """A channel with an agent at its other end.

    Args:
        reader: Bytes from the agent.
        writer: Bytes to the agent.
        peer: The machine's name in messages, such as ``qemu-tcg-paravirt``.
        bulk: The file behind the guest's bulk disk, where tables come that way.
        describe_end: Says why the other end is gone, for the message about a closed channel.
    """

    def __init__(
        self,
        reader: ByteReader,
        writer: ByteWriter,
        *,
        peer: str,
        bulk: BinaryIO | None = None,
        describe_end: Callable[[], Awaitable[str | None]] = _nothing_known,
    ) -> None:
        self.peer = peer
        self._reader = reader
        self._writer = writer
        self._bulk = bulk
        self._describe_end = describe_end
        self._decoder = FrameDecoder()
        self._frames: deque[Frame] = deque()
        self._clock_exchanges = 0
        self._request: str | None = None
        self._runs_trial = False
        self._cancels_next = False
        self._broken: str | None = None

    async def hello(self, deadline_s: float = 10.0) -> AgentHello:
        """Wait for the agent's hello and answer it.

        The agent speaks first: what is written to a serial line before the guest has opened it is lost or echoed.

        Raises:
            StealtimeError: No hello within ``deadline_s``, or the agent speaks another version of the protocol.
        """
        async with self._requesting("waiting for its hello"):
            hello = await self._answer(AgentHello, _Deadline.within(deadline_s))
            if hello.protocol != PROTOCOL_VERSION:
                raise StealtimeError(
                    f"the agent of {self.peer} is version {hello.agent_version} and speaks protocol {hello.protocol}, "
                    f"this is stealtime {stealtime.__version__} and speaks protocol {PROTOCOL_VERSION}",
                    hint=REINSTALL_HINT,
                )
            await self._send(ControlHello(protocol=PROTOCOL_VERSION, control_version=stealtime.__version__))
        return hello

    async def calibrate(
        self, loop_ns: int, cpu: int, priority: int, deadline_s: float = CALIBRATION_DEADLINE_S
    ) -> Calibrated:
        """Find how many iterations of the busy loop take ``loop_ns`` on ``cpu`` of the machine under test.

        Raises:
            StealtimeError: The agent refused, or the channel failed.
        """
        async with self._requesting("calibrating"):
            await self._send(Calibrate(loop_ns=loop_ns, cpu=cpu, priority=priority))
            return await self._answer(Calibrated, _Deadline.within(deadline_s))

    async def exchange_clocks(self, count: int = 12) -> Alignment:
        """Put the machine on the host's time line.

        Args:
            count: How many exchanges to choose the shortest from.

        Raises:
            StealtimeError: The channel failed.
        """
        async with self._requesting("exchanging clocks"):
            return align([await self._exchange_clock() for _ in range(count)])

    async def run_trial(
        self,
        request: RunTrial,
        folder: Path,
        *,
        deadline_s: float,
        listener: Listener = NOBODY,
        needs: tuple[StreamName, ...] = ("samples",),
    ) -> TrialResult:
        """Run a trial and spool its tables into files.

        Args:
            request: What to measure.
            folder: Where ``samples.arrows`` and so on are written; they are removed if the trial fails.
            deadline_s: How long the agent may take from the request to the first table or refusal: the trial's
                duration and what calibration and set-up may cost. While tables come, no pause may be longer than
                ``STREAM_SILENCE_S``. A trial in parts is silent no longer than until the next part is due; its result
                has the tables of the rest.
            listener: Hears of it while it runs.
            needs: The tables without which the trial is not whole.

        Raises:
            StealtimeError: The agent refused, the channel failed or went silent, or a table is not complete.
        """
        async with self._spooling(f"running trial {request.trial}", folder) as spool:
            await self._send(request)
            self._runs_trial = True
            try:
                if self._cancels_next:
                    await self._send(CancelTrial())
                tables = IncomingTables.of(request, folder, spool, self._bulk, listener)
                silence_s = longest_silence_s(request, deadline_s)
                done = await self._receive_tables(request.trial, TrialDone, tables, silence_s)
            finally:
                self._runs_trial = self._cancels_next = False
        for name in needs:
            self._require(spool, name, f"trial {request.trial} without {name}")
        return TrialResult(done, spool.paths)

    async def start_tracing(
        self, trial: int, tracing: TraceRequest, deadline_s: float = TRACING_DEADLINE_S
    ) -> TracingStarted:
        """Record what the machine's kernel does until ``stop_tracing``; comes back when it records.

        Raises:
            StealtimeError: The agent or its kernel refused (no tracefs, no right), or the channel failed.
        """
        async with self._requesting(f"starting the trace of trial {trial}"):
            await self._send(StartTracing(trial=trial, tracing=tracing))
            return await self._answer(TracingStarted, _Deadline.within(deadline_s))

    async def stop_tracing(self, trial: int, folder: Path, deadline_s: float = TRACING_DEADLINE_S) -> TraceResult:
        """Stop the recording that was started for ``trial`` and spool its events into ``folder`` / ``trace.arrows``.

        Raises:
            StealtimeError: No such recording is on, it failed meanwhile, the channel failed or went silent, or the
                table is not complete.
        """
        async with self._spooling(f"stopping the trace of trial {trial}", folder) as spool:
            await self._send(StopTracing(trial=trial))
            done = await self._receive_tables(trial, TracingDone, IncomingTables(spool), deadline_s)
        return TraceResult(done.outcome, self._require(spool, "trace", f"the trace of trial {trial} without its table"))

    async def start_load(self, trial: int, load: LoadRequest, deadline_s: float = LOAD_DEADLINE_S) -> LoadStarted:
        """Load the machine until ``stop_load``; comes back when all threads of the load are ready to begin.

        Raises:
            StealtimeError: The agent refused (a load is on already, for one), or the channel failed.
        """
        async with self._requesting(f"starting the load of trial {trial}"):
            await self._send(StartLoad(trial=trial, load=load))
            return await self._answer(LoadStarted, _Deadline.within(deadline_s))

    async def stop_load(self, trial: int, folder: Path, deadline_s: float = LOAD_DEADLINE_S) -> LoadResult:
        """Stop the load that was started for ``trial`` and spool what it did into ``folder`` / ``load.arrows``.

        Raises:
            StealtimeError: No such load is on, the channel failed or went silent, or the table is not complete.
        """
        async with self._spooling(f"stopping the load of trial {trial}", folder) as spool:
            await self._send(StopLoad(trial=trial))
            done = await self._receive_tables(trial, LoadDone, IncomingTables(spool), deadline_s)
        return LoadResult(done.outcome, self._require(spool, "load", f"the load of trial {trial} without its table"))

    async def start_program(self, arguments: Sequence[str], deadline_s: float = CLOCK_DEADLINE_S) -> int:
        """Start a program that ends with the agent; give its process id there.

        Args:
            arguments: The program and its arguments; ``stealtime-agent`` is the agent itself.
            deadline_s: How long that may take.

        Raises:
            StealtimeError: It cannot be started, or the channel failed.
        """
        async with self._requesting("starting the program"):
            await self._send(StartProgram(arguments=list(arguments)))
            return (await self._answer(ProgramStarted, _Deadline.within(deadline_s))).process

    async def list_threads(self, process: int, deadline_s: float = TRACING_DEADLINE_S) -> list[ProgramThread]:
        """Give the threads of a process and of all that it started; none once it has ended.

        Raises:
            StealtimeError: The channel failed.
        """
        async with self._requesting("listing threads"):
            await self._send(ListThreads(process=process))
            return (await self._answer(ThreadsListed, _Deadline.within(deadline_s))).threads

    async def cancel(self) -> None:
        """Ask the agent to stop the running trial and send what there is; ``run_trial`` then returns that.

        Where none runs yet, the next one is stopped as soon as it does.

        Raises:
            StealtimeError: The channel is closed.
        """
        self._cancels_next = not self._runs_trial
        if self._runs_trial:
            await self._send(CancelTrial())

    async def shutdown(self, within_s: float = 3.0) -> None:
        """Ask the agent to end, wait until it has closed the channel, and close it here.

        The other order would lose the request: a QEMU whose serial line is still full drops it when our end closes.
        A channel that is closed already is no error; one that stays open is closed after ``within_s``.
        """
        was_open = self._broken is None
        try:
            if was_open:
                async with asyncio.timeout(within_s):
                    await self._send(Shutdown())
                    while await self._reader.read(READ_BYTES):
                        pass
        except (StealtimeError, OSError, EOFError, TimeoutError):
            pass
        finally:
            self._broken = self._broken or "it was shut down"
            self._writer.close()

    def abandon(self) -> None:
        self._broken = self._broken or "it was closed"
        self._writer.close()

    @asynccontextmanager
    async def _spooling(self, doing: str, folder: Path) -> AsyncIterator[TableSpool]:
        """Hold the channel for a request that is answered by tables; they are removed if it fails."""
        spool = TableSpool(folder, self._bulk)
        async with self._requesting(doing):
            try:
                yield spool
            except BaseException:
                spool.discard()
                raise

    def _require(self, spool: TableSpool, name: StreamName, ended: str) -> Path:
        if name not in spool.paths:
            raise StealtimeError(f"the agent of {self.peer} ended {ended}", hint=REINSTALL_HINT)
        return spool.paths[name]

    async def _receive_tables(
        self, trial: int, last: type[_Answer], tables: IncomingTables, silence_s: float
    ) -> _Answer:
        """Spool the tables of ``trial`` up to its ``last`` message, and give that.

        Args:
            trial: Whose.
            last: The message after the last table.
            tables: Where they go.
            silence_s: How long the agent may take to the first table, and from one part to the next.
        """
        deadline = _Deadline.within(silence_s)
        while True:
            frame = await self._next_frame(
                _Deadline.within(STREAM_SILENCE_S, is_silence=True) if tables.come else deadline
            )
            if frame.kind is FrameKind.ARROW:
                tables.now.write(frame.payload)
                continue
            message = self._parse(frame)
            if getattr(message, "trial", trial) not in (trial, None):
                self._break(f"it answered for trial {message.trial} instead of {trial}")
            match message:
                case StreamBegin():
                    await tables.begin(message)
                case StreamEnd():
                    tables.now.end(message.stream, message.bytes)
                case Checkpoint() if tables.parts is not None:
                    await tables.keep(message)
                    await self._send(PartStored(trial=trial))
                    deadline = _Deadline.within(silence_s)
                case Failed():
                    self._refused(message)
                case Progress():
                    if tables.listener.on_progress is not None:
                        tables.listener.on_progress(message)
                case _ if isinstance(message, last):
                    return message
                case _:
                    self._break(f"it sent {message.type!r} while {self._request}")

    async def _exchange_clock(self) -> ClockExchange:
        self._clock_exchanges += 1
        request = ExchangeClock(id=self._clock_exchanges)
        before_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        await self._send(request)
        frame = await self._next_frame(_Deadline.within(CLOCK_DEADLINE_S))
        # Read before the answer is parsed: parsing would widen the round trip.
        after_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        answer = self._expect(ClockAnswer, frame)
        if answer.id != request.id:
            self._break(f"it answered clock exchange {answer.id} instead of {request.id}")
        return ClockExchange(before_ns, after_ns, answer.reading)

    @asynccontextmanager
    async def _requesting(self, doing: str) -> AsyncIterator[None]:
        """Hold the channel for one request; a request that is left half-way breaks the channel for good."""
        if self._request is not None:
            raise StealtimeError(f"the agent of {self.peer} cannot take a request while {self._request}")
        self._check_open()
        self._request = doing
        try:
            yield
        except _RefusedError as refused:
            # The agent goes on serving after `failed`: the channel stays whole.
            raise StealtimeError(refused.message, hint=refused.hint) from None
        except BaseException:
            self._broken = self._broken or f"it was left while {doing}"
            raise
        finally:
            self._request = None

    async def _send(self, message: BaseModel) -> None:
        self._check_open()
        try:
            self._writer.write(encode_frame(FrameKind.MESSAGE, message.model_dump_json().encode()))
            await self._writer.drain()
        except (OSError, EOFError) as error:
            await self._closed(error)

    async def _answer(self, expected: type[_Answer], deadline: _Deadline) -> _Answer:
        return self._expect(expected, await self._next_frame(deadline))

    def _expect(self, expected: type[_Answer], frame: Frame) -> _Answer:
        message = self._parse(frame)
        if isinstance(message, expected):
            return message
        if isinstance(message, Failed):
            self._refused(message)
        self._break(f"it sent {message.type!r} while {self._request}")

    async def _next_frame(self, deadline: _Deadline) -> Frame:
        try:
            async with asyncio.timeout_at(deadline.at) as timeout:
                while not self._frames:
                    await self._read_some()
                    if deadline.is_silence:
                        timeout.reschedule(asyncio.get_running_loop().time() + deadline.within_s)
        except TimeoutError:
            self._broken = "it went silent"
            raise StealtimeError(
                f"the agent of {self.peer} gave no answer within {deadline.within_s:g} s while {self._request}",
                hint="look at serial.log and agent.log; a busy host may need a longer --timeout",
            ) from None
        return self._frames.popleft()

    async def _read_some(self) -> None:
        try:
            data = await self._reader.read(READ_BYTES)
        except (OSError, EOFError) as error:
            await self._closed(error)
        try:
            if not data:
                self._decoder.finish()
                await self._closed(None)
            self._frames.extend(self._decoder.feed(data))
        except FrameError as error:
            if not data:
                await self._closed(error)
            self._break(error.message)

    def _parse(self, frame: Frame) -> Any:
        if frame.kind is not FrameKind.MESSAGE:
            self._break(f"{len(frame.payload)} bytes of a table came while {self._request}")
        try:
            return from_agent.validate_json(frame.payload)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            self._break(f"a message is not understood: {place or 'it'}: {first['msg']}")

    def _refused(self, failed: Failed) -> NoReturn:
        raise _RefusedError(f"the agent of {self.peer} failed while {self._request}: {failed.error}", hint=failed.hint)

    def _break(self, what: str) -> NoReturn:
        self._broken = "it broke the protocol"
        raise StealtimeError(f"the agent of {self.peer} broke the protocol: {what}", hint=REINSTALL_HINT)

    async def _closed(self, cause: Exception | None) -> NoReturn:
        self._broken = "its channel is closed"
        why = await self._describe_end()
        detail = f": {why}" if why else f": {cause}" if cause is not None else ""
        doing = f" while {self._request}" if self._request else ""
        raise StealtimeError(
            f"the agent of {self.peer} closed its channel{doing}{detail}", hint="look at serial.log and agent.log"
        ) from cause

    def _check_open(self) -> None:
        if self._broken is not None:
            raise StealtimeError(f"the agent of {self.peer} cannot be asked any more: {self._broken}")


class _RefusedError(StealtimeError):
    """The agent's ``failed``; leaves ``_requesting`` as a plain ``StealtimeError``."""
