"""Ids of processes and threads where ``/proc`` counts as another PID namespace than ours does."""

import os
from pathlib import Path

import pytest

from stealtime.lab.platforms.affinity import list_threads
from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.shown_ids import shown_process, threads_of

OURS, INNER = "pid:[4026532999]", "pid:[4026533000]"


def show(proc: Path, entry: str, ids: str, namespace: str = OURS) -> Path:
    folder = proc / entry
    (folder / "ns").mkdir(parents=True)
    (folder / "status").write_text(f"Name:\ta\nNSpid:\t{ids}\nThreads:\t1\n")
    (folder / "ns/pid").symlink_to(namespace)
    return folder


def test_where_proc_is_ours_ids_are_what_they_are(tmp_path: Path) -> None:
    show(tmp_path, "self", "12")
    task = show(tmp_path, "7", "7") / "task" / "8"
    task.mkdir(parents=True)
    assert shown_process(7, tmp_path) == 7
    assert list(threads_of(7, tmp_path)) == [(task, 8)]
    assert list(threads_of(99, tmp_path)) == [], "it has ended"


def test_where_proc_is_of_the_namespace_around_both_ids_are_known(tmp_path: Path) -> None:
    show(tmp_path, "self", "9000 12")
    show(tmp_path, "7", "7", "pid:[4026531836]")
    show(tmp_path, "9005", "9005 7", INNER)
    show(tmp_path, "9006", "9006 7")
    # In a namespace of its own within ours.
    guest = show(tmp_path, "9007", "9007 8 1", INNER)
    for tid, ids in ((9007, "9007 8 1"), (9008, "9008 9 2"), (9009, "9009")):
        show(guest / "task", str(tid), ids)
    assert shown_process(7, tmp_path) == 9006
    assert [(int(folder.name), own) for folder, own in threads_of(9007, tmp_path)] == [(9007, 8), (9008, 9)]
    with pytest.raises(MachineError, match="does not show the process 1"):
        shown_process(1, tmp_path)


def test_the_threads_of_this_process_are_listed_with_where_they_may_run() -> None:
    main = next(thread for thread in list_threads(os.getpid(), default="control") if thread.tid == os.getpid())
    assert set(main.cpus) == os.sched_getaffinity(0)
    assert list_threads(4_194_305) == []


def test_a_process_whose_name_is_no_text_has_its_id_all_the_same(tmp_path: Path) -> None:
    show(tmp_path, "self", "9000 12")
    status = show(tmp_path, "9006", "9006 7") / "status"
    status.write_bytes(status.read_bytes().replace(b"Name:\ta", b"Name:\t\xff\x1b"))
    assert shown_process(7, tmp_path) == 9006
