"""A fleet on one machine: three hosts in network namespaces, each with a Dask worker of the site, over TLS.

Each has an identity and a folder of its own. They share the CPUs: a claim on the measured CPU keeps two from measuring
at a time.
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet_hog import NAME, hog_while_measuring
from fleet_site import HOSTS, FleetSite, fleet_site, make_certificates
from traced_cpu import traced_cpu

pytestmark = [pytest.mark.guest, pytest.mark.truth]

CPU = traced_cpu()
SHORT = ("-P", "native", "--probe", "tick", "-D", "500ms", "-n", "4", "-a", str(CPU))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetSite]:
    with fleet_site(tmp_path_factory.mktemp("site")) as one:
        yield one


def record_of(folder: Path) -> dict[str, dict[str, object]]:
    document = json.loads((folder / "fleet.json").read_text())
    return {host["name"]: host for host in document["hosts"]}


def test_a_host_that_is_killed_loses_no_whole_trial_and_is_asked_again(site: FleetSite, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    process = subprocess.Popen(
        site.command("quick", *SHORT, "-o", str(fleet)), env=site.environment("client"), stderr=subprocess.DEVNULL
    )
    killed = await_trial(fleet)
    site.kill_worker(killed)
    assert process.wait(timeout=200) == 4
    hosts = record_of(fleet)
    assert hosts[killed]["state"] == "lost", hosts
    kept = hosts[killed]["whole"]
    assert isinstance(kept, int)
    assert 1 <= kept < 4, hosts
    assert {name: host["whole"] for name, host in hosts.items() if name != killed} == dict.fromkeys(
        set(HOSTS) - {killed}, 4
    ), hosts
    # What is pinned to a worker that has gone is never given to one of the same name.
    site.start_worker(killed)
    time.sleep(2)
    assert record_of(fleet)[killed]["whole"] == kept
    resumed = site.run("--resume", str(fleet))
    assert resumed.returncode == 0, resumed
    hosts = record_of(fleet)
    assert {host["whole"] for host in hosts.values()} == {4}, hosts
    assert len({host["run_id"] for host in hosts.values()}) == len(HOSTS), hosts


def await_trial(fleet: Path) -> str:
    """Wait until some host has given a trial and not all; give which."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for run in (fleet / "runs").glob("*"):
            whole = list(run.glob("cells/*/trial.json"))
            if 0 < len(whole) < 4 and (run / "manifest.json").exists():
                name: str = json.loads((run / "manifest.json").read_text())["identity"]["name"]
                return name
        time.sleep(0.02)
    raise TimeoutError("no host gives a trial")


def test_a_slowed_host_is_named_with_its_cause(site: FleetSite, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    process = subprocess.Popen(
        site.command("quick", *SHORT, "-o", str(fleet)), env=site.environment("client"), stderr=subprocess.DEVNULL
    )
    with hog_while_measuring(site.data_of("b") / "stealtime/runs", CPU, site.laboratory.nodes["b"].prefix) as times:
        assert process.wait(timeout=240) in (0, 4)
    assert len(times) == 1, f"the hog ran {times}"
    merged = stealtime("merge", *map(str, (fleet / "runs").glob("*")), "-o", str(tmp_path / "merged"))
    assert merged.returncode in (0, 4), merged
    shown = stealtime("show", str(tmp_path / "merged"))
    longest = next(line for line in shown.stdout.splitlines() if ": the longest, " in line)
    assert ", on b at " in longest, shown.stdout
    assert "not alone: others had" in longest, shown.stdout
    assert NAME in longest, shown.stdout


def stealtime(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from stealtime.start import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_ctrl_c_leaves_nothing_behind(site: FleetSite, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    process = subprocess.Popen(
        site.command("quick", *SHORT, "-o", str(fleet)),
        env=site.environment("client"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    await_trial(fleet)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "interrupted; what has arrived is kept" in said, said
    assert "--resume" in said, said
    for name in HOSTS:
        left = [pid for pid in site.laboratory.processes(name) if pid != site.workers[name].pid]
        assert left == [], f"{name} still runs {left}"
    resumed = site.run("--resume", str(fleet))
    assert resumed.returncode == 0, resumed


def test_a_host_without_rights_is_told_apart_and_the_others_measure(site: FleetSite, tmp_path: Path) -> None:
    site.kill_worker("c")
    site.start_worker("c", before=("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    fleet = tmp_path / "fleet"
    done = site.run("quick", *SHORT[:-2], "-D", "200ms", "--scenario", "contention-cpu", "-P", "uml", "-o", str(fleet))
    hosts = record_of(fleet)
    assert done.returncode == 4, (done, hosts)
    assert hosts["c"]["state"] == "failed", hosts
    assert hosts["c"]["words"], hosts
    site.kill_worker("c")
    site.start_worker("c")


def test_what_cannot_begin_is_told_in_one_sentence_with_a_hint(site: FleetSite, tmp_path: Path) -> None:
    plain = {name: value for name, value in site.environment("client").items() if not name.startswith("DASK_")}
    command = site.command("quick", "-o", str(tmp_path / "fleet"), with_credentials=False)
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2, done
    assert done.stderr.startswith(f"error: {site.address} asks for certificates, and none are given\nhint: "), done
    # A certificate of somebody else.
    other = tmp_path / "other"
    other.mkdir()
    make_certificates(other, ["127.0.0.1"])
    files = (("--tls-ca-file", "ca.pem"), ("--tls-cert", "own.pem"), ("--tls-key", "own.key"))
    options = [one for option, name in files for one in (option, str(other / name))]
    done = subprocess.run([*command, *options], env=plain, capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 1, done
    assert done.stderr.startswith(f"error: no scheduler answers at {site.address}: "), done
    assert "\nhint: " in done.stderr
    assert "Traceback" not in done.stderr, done
    assert not (tmp_path / "fleet").exists(), "nothing was begun"
    for name in HOSTS:
        site.kill_worker(name)
    done = site.run("quick", "-o", str(tmp_path / "fleet"))
    for name in HOSTS:
        site.start_worker(name)
    assert done.returncode == 1, done
    assert done.stderr.startswith(f"error: the scheduler at {site.address} has no workers\nhint: start one"), done


def test_a_worker_does_not_join_a_scheduler_elsewhere_that_is_not_encrypted(site: FleetSite, tmp_path: Path) -> None:
    address = site.laboratory.client.address("clients")
    plain = {name: value for name, value in site.environment("a").items() if not name.startswith("DASK_")}
    dask = [sys.executable, "-m", "dask"]
    scheduler = subprocess.Popen(
        [*site.laboratory.client.prefix, *dask, "scheduler", "--host", address, "--port", "8790", "--no-dashboard"],
        env=plain,
        stderr=subprocess.DEVNULL,
    )
    try:
        joining = [*dask, "worker", f"tcp://{address}:8790", "--nthreads", "1", "--no-nanny", "--no-dashboard"]
        joining += ["--local-directory", str(tmp_path), "--preload", "stealtime.fleet.preload"]
        done = subprocess.run(
            [*site.laboratory.nodes["a"].prefix, *joining],
            env=plain,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        scheduler.terminate()
        scheduler.wait()
    assert done.returncode == 2, done
    assert "Registered to" not in done.stderr, "it has not even said who it is"
    assert "is beyond this machine and not encrypted" in done.stderr, done.stderr[-3000:]


def test_a_scheduler_that_goes_away_takes_nothing_with_it(site: FleetSite, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    process = subprocess.Popen(
        site.command("quick", *SHORT, "-o", str(fleet)),
        env=site.environment("client"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    await_trial(fleet)
    site.scheduler.kill()
    site.scheduler.wait()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert f"the scheduler at {site.address} went away" in said, said
    assert "--resume" in said, said
    assert sum(int(str(host["whole"])) for host in record_of(fleet).values()) >= 1
