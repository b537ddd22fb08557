"""Where standby hosts listen, and how `--to` names them."""

import pytest

from stealtime.protect.endpoint import DEFAULT_PORT, StandbyHost, checked_endpoint, describe_problem, parse_target

KNOWN = [StandbyHost(name="b", endpoint="tcp:10.0.0.2:7000"), StandbyHost(name="c", endpoint="unix:/run/c.sock")]


@pytest.mark.parametrize(
    "endpoint", ["unix:/run/x.sock", "tcp:host-b.lan:7460", "tcp:10.0.0.2:1", "tcp:[fd00::2]:65535"]
)
def test_endpoints_are_sockets_or_addresses_with_a_port(endpoint: str) -> None:
    assert checked_endpoint(endpoint) == endpoint


@pytest.mark.parametrize(
    ("endpoint", "told"),
    [
        ("unix:relative", "no absolute path"),
        (f"unix:/{'x' * 107}", "at most 107 bytes"),
        ("tcp:host", "is not an endpoint"),
        ("tcp:host:70000", "70000"),
        ("tcp::7460", "is not an endpoint"),
        ("http://host", "is not an endpoint"),
        ("", "is not an endpoint"),
    ],
)
def test_what_is_no_endpoint_is_told(endpoint: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        checked_endpoint(endpoint)


@pytest.mark.parametrize(
    ("text", "name", "endpoint"),
    [
        ("b", "b", "tcp:10.0.0.2:7000"),
        ("d=unix:/run/d.sock", "d", "unix:/run/d.sock"),
        ("host-d", "host-d", f"tcp:host-d:{DEFAULT_PORT}"),
        ("host-d:9", "host-d", "tcp:host-d:9"),
        ("tcp:10.0.0.9:9", "10.0.0.9", "tcp:10.0.0.9:9"),
        ("[fd00::2]", "fd00--2", f"tcp:[fd00::2]:{DEFAULT_PORT}"),
        ("[fd00::2]:9", "fd00--2", "tcp:[fd00::2]:9"),
        ("unix:/run/d.sock", "local", "unix:/run/d.sock"),
    ],
)
def test_a_target_is_a_known_name_or_says_where_it_is(text: str, name: str, endpoint: str) -> None:
    assert parse_target(text, KNOWN) == StandbyHost(name=name, endpoint=endpoint)


@pytest.mark.parametrize("text", ["", "d=", "host:port", "two words", "d=ftp://x"])
def test_a_target_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"endpoint|name"):
        parse_target(text, KNOWN)


def test_memory_does_not_travel_in_the_clear() -> None:
    assert "there is no [identity]" in str(describe_problem(KNOWN, has_identity=False))
    assert describe_problem(KNOWN, has_identity=True) is None
    assert describe_problem(KNOWN[1:], has_identity=False) is None
