"""Kubernetes' node-problem-detector, the real one, without a cluster: what it finds stands in its log and metrics."""

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "node-problem-detector"


@dataclass(frozen=True)
class Detector:
    """It, while it runs."""

    port: int
    log: Path

    def gauge(self, condition: str, reason: str) -> str | None:
        """Give what its metrics say of a condition; None as long as they say nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
                lines = answer.read().decode().splitlines()
        except urllib.error.URLError:
            return None
        wanted = ("problem_gauge{", f'reason="{reason}"', f'type="{condition}"')
        found = [line for line in lines if all(part in line for part in wanted)]
        return found[0].rsplit(" ", 1)[1] if found else None

    def await_condition(self, condition: str, reason: str, within_s: float) -> str:
        """Wait until a condition holds; gives the line of its log that says so."""
        deadline = time.monotonic() + within_s
        while self.gauge(condition, reason) != "1":
            if time.monotonic() > deadline:
                raise TimeoutError(f"it has found nothing: {self.log.read_text()[-3000:]}")
            time.sleep(0.2)
        return next(line for line in reversed(self.log.read_text().splitlines()) if reason in line)


@contextmanager
def node_problem_detector(folder: Path, plugin: str) -> Iterator[Detector]:
    """Run it with one plugin.

    Args:
        folder: An empty one.
        plugin: The configuration of a custom plugin monitor, in JSON.
    """
    settings, log = folder / "plugin.json", folder / "log"
    settings.write_text(plugin)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = [PROGRAM, f"--config.custom-plugin-monitor={settings}", "--enable-k8s-exporter=false", "--port=0"]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*argv, f"--prometheus-port={port}", "--logtostderr"], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield Detector(port, log)
    finally:
        process.terminate()
        process.wait(timeout=20)
