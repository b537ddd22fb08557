"""What members and hosts are told and say, as both sides declare it: the Rust types' schema, and the models here."""

from typing import get_args

import pytest
from pydantic import BaseModel
from schema_shape import shape_here, stored, whole_shape

from stealtime.protect.bypass import ALWAYS_HELD
from stealtime.protect.devices import ALLOWED
from stealtime.protect.specification import HostSpec, MemberSpec
from stealtime.protect.status import MemberStatus, Role
from stealtime.protect.vm_file import SHORTEST_INTERVAL_NS

RUST = stored("members.schema.json")


@pytest.mark.parametrize(("document", "model"), [("spec", MemberSpec), ("host", HostSpec)])
def test_both_sides_declare_the_same_documents(document: str, model: type[BaseModel]) -> None:
    (_, ours), (_, theirs) = shape_here(model), whole_shape(RUST[document])
    assert ours - theirs == frozenset(), "only here"
    assert theirs - ours == frozenset(), "only in Rust"


def test_all_that_a_member_says_of_itself_is_read() -> None:
    assert (
        RUST["status"]["properties"].keys() <= MemberStatus.model_json_schema(mode="serialization")["properties"].keys()
    )
    roles = {value for _, value in whole_shape(RUST["status"]["$defs"]["Role"])}
    assert roles | {"gone"} == set(get_args(Role))


def test_both_sides_have_the_same_limits() -> None:
    limits = RUST["limits"]
    assert set(limits["ports_always_held"]) == set(ALWAYS_HELD)
    assert set(limits["devices"]) == set(ALLOWED)
    assert limits["shortest_interval_ns"] == SHORTEST_INTERVAL_NS


def test_what_travels_names_nothing_that_is_a_hosts_own() -> None:
    own = {
        "qemu",
        "qemu_user",
        "host",
        "disk_images",
        "network",
        "register",
        "identity",
        "folder",
        "metrics",
        "allow_faults",
    }
    # Of the address for Prometheus only the port.
    assert set(RUST["travels"]) - {"metrics_port"} == RUST["spec"]["properties"].keys() - own
