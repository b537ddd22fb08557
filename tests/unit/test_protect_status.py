"""What `stealtime protect status --json` promises to programs: its schema, and when a machine counts as protected."""

import json

import jsonschema
import pytest

from stealtime.protect.status import Alarm, FullCopy, MemberStatus, Peer, StatusDocument
from stealtime.schemas import DOCUMENTS
from stealtime.vocabulary.errors import ExitCode

ACTIVE = MemberStatus(
    vm="phone",
    host="a",
    role="active",
    protected=True,
    mode="net",
    epoch=7,
    standby=Peer(name="b", endpoint="unix:/run/b.sock"),
    register_="in the folder /run/register",
    warnings=("written pages are found by shadow",),
)
COPYING = MemberStatus(
    vm="fax", host="a", role="solo", protected=False, full_copy=FullCopy(done_bytes=4096, total_bytes=8192)
)
GONE = MemberStatus(vm="fax", host="b", role="gone", protected=False)


def test_a_document_of_members_in_all_states_is_valid() -> None:
    document = json.loads(StatusDocument(members=(ACTIVE, COPYING, GONE)).model_dump_json())
    schema = DOCUMENTS["status"].schema()
    jsonschema.validate(document, schema)
    assert document["schema_version"] == 1
    assert document["members"][0]["register"] == "in the folder /run/register"
    for key, wrong in (("role", "sleeping"), ("mode", "fast"), ("epoch", "7"), ("warnings", "none")):
        damaged = {**document, "members": [{**document["members"][0], key: wrong}]}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(damaged, schema)


def test_each_machine_must_be_protected_by_somebody() -> None:
    assert not StatusDocument(members=()).is_protected()
    assert StatusDocument(members=(ACTIVE,)).is_protected()
    assert not StatusDocument(members=(ACTIVE, COPYING)).is_protected()
    standby = ACTIVE.model_copy(update={"host": "b", "role": "standby", "protected": False})
    assert StatusDocument(members=(standby, ACTIVE)).is_protected()


def test_an_alarm_is_told_by_the_exit_code_of_what_is_protected() -> None:
    alarmed = ACTIVE.model_copy(update={"alarms": (Alarm(kind="register", text="the register gives no answer"),)})
    assert StatusDocument(members=(ACTIVE,)).exit_code() == ExitCode.FINE
    assert StatusDocument(members=(alarmed,)).exit_code() == ExitCode.NOT_JUDGED
    assert StatusDocument(members=(alarmed, COPYING)).exit_code() == ExitCode.THRESHOLD
