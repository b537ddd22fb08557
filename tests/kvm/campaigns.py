"""The campaigns that are measured under KVM: each known disturbance on one of its platforms."""

from typing import Any

TICK = {"probe": "tick", "loop": "68us", "duration": "4s"}
SHORT_TICK = {**TICK, "duration": "2s"}
WAKEUP = {"probe": "wakeup", "interval": "10ms", "duration": "2s"}
CONTEND = {
    "probe": "contend",
    "tasks": 1,
    "iterations": 200,
    "collection": "64KiB",
    "io": "2ms",
    "io_spread": 0,
    "duration": "3m",
}
HOG = {"kind": "process", "load": "cpu-load", "cpus": "measured", "priority": 90, "on": "20ms", "off": "180ms"}


def _campaign(platform: str, scenario: dict[str, Any], probes: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    return {
        "name": "truth",
        "platforms": [platform],
        "define": [{"name": "truth", **scenario}],
        "scenarios": ["truth"],
        "probes": probes,
        "tracing": "on",
        "lift_rt_throttling": True,
        **changes,
    }


CAMPAIGNS: dict[str, dict[str, Any]] = {
    "hog": _campaign("qemu-kvm-paravirt", {"neighbours": [HOG]}, [TICK]),
    "exits": _campaign(
        "qemu-kvm-paravirt",
        {},
        [SHORT_TICK, WAKEUP],
        injection={"every": "50ms", "steal": "10ms", "exit": "port_write"},
    ),
    "quota": _campaign("qemu-kvm-hyperv", {"share": {"quota_percent": 50}}, [TICK]),
    "plain": _campaign(
        "qemu-kvm-emulated", {}, [SHORT_TICK], injection={"every": "20ms", "steal": "50us", "exit": "cpuid"}
    ),
    "stretch": {
        "name": "stretch",
        "platforms": ["native", "qemu-kvm-paravirt"],
        "define": [{"name": "one", "emulator": "measured"}],
        "scenarios": ["one"],
        "probes": [CONTEND],
        "repetitions": 1,
        "priority": 0,
    },
}
