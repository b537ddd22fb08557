"""A real Prometheus that asks an exporter, and is asked by a test."""

import json
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        number: int = free.getsockname()[1]
        return number


def installed(program: str) -> str:
    """Give the path of a program of Debian's package prometheus, or skip."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"the program {program} is not installed (package prometheus)")
    return found


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    port: int

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Give the series that an expression has now.

        Raises:
            urllib.error.HTTPError: Prometheus does not understand it.
        """
        result: list[dict[str, Any]] = self._ask(f"query?{urllib.parse.urlencode({'query': expression})}")["result"]
        return result

    def firing(self) -> set[tuple[str, str]]:
        """Give the alerts that fire, with the label of the guest, or the host."""
        return {
            (one["labels"]["alertname"], one["labels"].get("guest", one["labels"].get("instance", "")))
            for one in self._ask("alerts")["alerts"]
            if one["state"] == "firing"
        }

    def _ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.port}/api/v1/{what}", timeout=10) as answer:
            return json.load(answer)["data"]


@contextmanager
def prometheus(folder: Path, target: str, rules: str) -> Iterator[Prometheus]:
    """Let it ask ``target`` each other second, as the job ``stealtime``.

    Args:
        folder: For its files; it is made.
        target: ``HOST:PORT`` of the exporter.
        rules: The text of a file of rules.
    """
    folder.mkdir()
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        "global: { scrape_interval: 2s, evaluation_interval: 1s }\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{ job_name: stealtime, static_configs: [{{ targets: ['{target}'] }}] }}]\n"
    )
    port = free_port()
    argv = [
        installed("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={LOOPBACK}:{port}", "--log.level=error",
    ]  # fmt: skip
    process = subprocess.Popen(argv)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait()
