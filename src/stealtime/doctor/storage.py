"""Storage for runs and guest kernels, and the agent binary."""

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

from stealtime.doctor.attempts import Attempts
from stealtime.doctor.model import Data, Finding, Group, Subject
from stealtime.lab.platforms.agent_binary import find_agent
from stealtime.vocabulary.errors import REINSTALL_HINT, StealtimeError

ENOUGH_DISK_BYTES = 2 << 30
LEAST_DISK_BYTES = 256 << 20
"""A quick run and two unpacked guest kernels."""

DATA_FOLDER = Subject(
    "data_folder",
    Group.STORAGE,
    "room for runs",
    "Every sample is kept: 4 bytes each before compression, 200 MB for 50 million.",
)
CACHE_FOLDER = Subject(
    "cache_folder",
    Group.STORAGE,
    "room for guest kernels",
    "Guest kernels are unpacked once and kept; without room for them no guest boots.",
)
AGENT = Subject(
    "agent",
    Group.STORAGE,
    "the agent",
    "It measures, natively and as the first process of every guest.",
)


def data_folder(attempts: Attempts) -> Finding:
    """Free space for runs."""
    return _room(DATA_FOLDER, user_data_path("stealtime"), "XDG_DATA_HOME", attempts)


def cache_folder(attempts: Attempts) -> Finding:
    """Free space for kernels and images."""
    return _room(CACHE_FOLDER, user_cache_path("stealtime"), "XDG_CACHE_HOME", attempts)


def agent(attempts: Attempts) -> Finding:
    """Whether the agent is beside this Python, and runs."""
    try:
        path = find_agent()
    except StealtimeError as error:
        return AGENT.blocks(error.message, {"path": None, "version": None}, error.hint or REINSTALL_HINT)
    answer = attempts.run([str(path), "--version"])
    value: Data = {"path": str(path), "version": answer.text if answer.succeeded else None}
    if answer.succeeded:
        return AGENT.ok(f"{answer.text}, {path}", value)
    return AGENT.blocks(f"{path} does not run: {answer.text}", value, REINSTALL_HINT)


def _room(subject: Subject, folder: Path, variable: str, attempts: Attempts) -> Finding:
    free_bytes = attempts.free_bytes(folder)
    parent = next(path for path in (folder, *folder.parents) if path.exists())
    writable = os.access(parent, os.W_OK)
    value: Data = {"folder": str(folder), "free_bytes": free_bytes, "writable": writable}
    text = f"{free_bytes / (1 << 30):.1f} GiB free in {folder}"
    if not writable:
        return subject.blocks(f"{parent} is not writable for this user", value, f"set {variable} to another folder")
    if free_bytes < LEAST_DISK_BYTES:
        return subject.blocks(text, value, f"make room, or set {variable} to a folder on another disk")
    if free_bytes < ENOUGH_DISK_BYTES:
        return subject.limits(text, value, f"make room, or set {variable} to a folder on another disk")
    return subject.ok(text, value)
