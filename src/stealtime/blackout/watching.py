"""Runs the agent that watches, and tells meanwhile how it goes."""

import json
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stealtime.blackout.seen import WAY_NAMES, Now, Watched
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.vocabulary.errors import ExitCode, StealtimeError

_WORTH_TELLING_NS = 50_000_000

_RESULTS = (ExitCode.FINE, ExitCode.THRESHOLD, ExitCode.NOT_JUDGED)


@dataclass(frozen=True)
class Outcome:
    """What was seen, and what the agent thinks of it."""

    seen: Watched
    exit_code: ExitCode


def watch(options: Iterable[str], on_progress: Callable[[str], None]) -> Outcome:
    """Watch until the time is over or somebody interrupts.

    Args:
        options: Of ``stealtime-agent blackout``.
        on_progress: Is told a line now and then.

    Raises:
        StealtimeError: Nothing could be watched; what the agent says.
    """
    argv = [str(find_agent()), "blackout", "--json", "--json-progress", "--until-closed", *options]
    # In a group of its own: an interruption ends our waiting first, and we end it by closing its input.
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as agent:
        assert agent.stdin is not None and agent.stdout is not None and agent.stderr is not None  # noqa: S101, PT018
        output: list[str] = []
        reader = threading.Thread(target=lambda stdout=agent.stdout: output.append(stdout.read()), daemon=True)
        reader.start()
        said: list[str] = []
        handler = signal.signal(signal.SIGTERM, _interrupt)
        try:
            _listen(agent.stderr, on_progress, said)
        except KeyboardInterrupt:
            agent.stdin.close()
            _listen(agent.stderr, on_progress, said)
        finally:
            signal.signal(signal.SIGTERM, handler)
        reader.join()
        agent.wait()
    if agent.returncode not in _RESULTS:
        raise _failure(said, agent.returncode)
    return Outcome(Watched.model_validate_json(output[0]), ExitCode(agent.returncode))


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _listen(stderr: Iterable[str], on_progress: Callable[[str], None], said: list[str]) -> None:
    for line in stderr:
        if line.startswith("{"):
            on_progress(progress_line(Now.model_validate(json.loads(line))))
        else:
            said.append(line.rstrip())


def progress_line(now: Now) -> str:
    parts = [f"{now.elapsed_ns / 1e9:.0f} s"]
    for way in now.ways:
        silent_ns = way.silent_ns or 0
        silent = f"silent for {silent_ns / 1e6:.0f} ms, " if silent_ns > _WORTH_TELLING_NS else ""
        parts.append(f"{WAY_NAMES[way.way]}: {silent}longest {way.longest_silence_ns / 1e6:.1f} ms")
    violations = sum(way.violations for way in now.ways)
    if violations:
        parts.append(f"{violations} wrong answers")
    return "   ".join(parts)


def _failure(said: list[str], code: int) -> StealtimeError:
    found = {kind: text for line in said for kind, _, text in [line.partition(": ")]}
    message = found.get("error", f"the agent ended with {code}: {' '.join(said[-3:])}")
    return StealtimeError(
        message, hint=found.get("hint"), exit_code=ExitCode.USAGE if code == ExitCode.USAGE else ExitCode.FAILED
    )
