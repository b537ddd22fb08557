"""The stretch, the pressure and what is predicted as metrics."""

import asyncio
import re
from pathlib import Path

import pytest
from command import make_command
from prometheus_client.parser import text_string_to_metric_families
from synthetic_use import guest, use

from stealtime.capacity.collector import Collector
from stealtime.capacity.exporter.exposition import write
from stealtime.capacity.exporter.predicting import Predicting
from stealtime.capacity.exporter.stretch_families import MOST_VCPUS, prediction_families, stretch_families
from stealtime.capacity.prediction.addition import read_addition
from stealtime.capacity.prediction.document import Changes

PAIR = [guest(name, run=[50.0], wait=[50.0], cpus=[0]) for name in ("db", "web")]
SECOND = use([*PAIR, guest("calm", run=[0.0])], busy=(100.0, 0.0))


def told(text: bytes) -> dict[str, float]:
    """Read with Prometheus' own parser: values by metric and labels."""
    return {
        " ".join([sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))]): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_each_guest_and_virtual_cpu_has_its_stretch_and_the_host_its_pressure() -> None:
    found = told(write(stretch_families(SECOND)))
    assert found["stealtime_guest_stretch_ratio guest=web"] == pytest.approx(2.0)
    assert found["stealtime_vcpu_stretch_ratio guest=db vcpu=0"] == pytest.approx(2.0)
    assert found["stealtime_host_wait_ratio"] == pytest.approx(0.5)
    assert not [name for name in found if "calm" in name], "what did not run has no stretch"


def test_a_guest_with_many_virtual_cpus_has_one_series_and_not_one_for_each() -> None:
    wide = guest("wide", run=[50.0] * (MOST_VCPUS + 1), wait=[25.0] * (MOST_VCPUS + 1))
    found = told(write(stretch_families(use([wide]))))
    assert found["stealtime_guest_stretch_ratio guest=wide"] == pytest.approx(1.5)
    assert not [name for name in found if name.startswith("stealtime_vcpu")]


async def test_what_changes_do_is_predicted_beside_the_reading(tmp_path: Path) -> None:
    changes = Changes([read_addition("1vcpu,busy=100%,cpus=0", frozenset({0, 1}))], remove_each=True)
    predicting = Predicting(changes, tmp_path)
    assert predicting.latest is None
    with Collector(tmp_path) as collector:
        predicting.begin([SECOND] * 10, collector)
        for _ in range(500):
            await asyncio.sleep(0.01)
            if (latest := predicting.latest) is not None:
                break
    assert latest is not None
    found = told(write(prediction_families(latest)))
    more = "added=1vcpu,busy=100%,cpus=0"
    assert found[f"stealtime_guest_stretch_predicted_ratio {more} guest=web"] == pytest.approx(3.0, rel=0.01)
    low, high = (found[f"stealtime_guest_stretch_predicted_{end}_ratio {more} guest=added"] for end in ("low", "high"))
    assert low < 3.0 < high
    assert found[f"stealtime_host_wait_predicted_ratio {more}"] == pytest.approx(2 / 3, rel=0.01)
    assert found["stealtime_host_wait_predicted_ratio removed=web"] == pytest.approx(0.0, abs=1e-3)


async def test_unasked_nothing_is_predicted(tmp_path: Path) -> None:
    predicting = Predicting(Changes(), tmp_path)
    with Collector(tmp_path) as collector:
        predicting.begin([SECOND] * 10, collector)
    assert predicting.latest is None


def test_predictions_live_in_metrics_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ended = make_command(monkeypatch, capsys)("watch", "--add", "2vcpu,busy=60%", "--once")
    assert ended.code == 2
    assert re.search("only metrics have predictions here", ended.err)
