"""What every result says on a host that is itself emulated."""

import pytest

from stealtime.lab.platforms import below


@pytest.mark.parametrize(("signature", "count"), [("TCGTCGTCGTCG", 1), ("KVMKVMKVM", 0), (None, 0)])
def test_only_an_emulated_host_limits_all_its_trials(
    monkeypatch: pytest.MonkeyPatch, signature: str | None, count: int
) -> None:
    monkeypatch.setattr(below, "hypervisor_signature", lambda: signature)
    findings = below.findings()
    assert len(findings) == count
    assert all(finding.level == "limits" and "times mean nothing" in finding.text for finding in findings)
