"""What drivers prepare before a trial reaches whoever shows the progress of the run."""

import asyncio
import io

from rich.console import Console

from stealtime.campaigns.events import CellPreparing
from stealtime.campaigns.file import read_campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import plan
from stealtime.campaigns.progress import LiveProgress, PlainProgress
from stealtime.campaigns.telling import tell, told_to
from stealtime.store.model import PlatformRecord


async def test_threads_of_a_trial_tell_its_listener_and_no_other() -> None:
    heard: dict[str, list[str]] = {"first": [], "second": []}
    tasks = []
    for name, words in heard.items():
        with told_to(words.append):
            tasks.append(asyncio.create_task(asyncio.to_thread(tell, f"of the {name}")))
    # Nobody listens here any more.
    tell("of nobody")
    await asyncio.gather(*tasks)
    assert heard == {"first": ["of the first"], "second": ["of the second"]}


def test_what_is_prepared_is_shown_with_its_trial() -> None:
    text = 'name = "x"\nscenarios = ["telephony"]\n[[probes]]\nprobe = "register"\nduration = "1s"\nmode = ["off"]\n'
    record = PlatformRecord(name="native", usable=True, reason="")
    (cell,) = plan(read_campaign(text, "f"), [record], HostCpus((0, 1))).cells[:1]
    event = CellPreparing(cell, "10,000 of 100,000 users are registered")
    console = Console(width=200, file=(said := io.StringIO()))
    PlainProgress(console).on_event(event)
    assert said.getvalue() == f"{cell.trial_id}: 10,000 of 100,000 users are registered\n"
    live = LiveProgress(console)
    live.on_event(event)
    assert f"{cell.trial_id} (10,000 of 100,000 users are registered)" in live.render().plain
