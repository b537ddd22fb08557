"""What this study says in words."""

PART_WORDS = {
    "submit": "guest submits",
    "notify": "leaving the guest",
    "take": "emulator takes it",
    "host_io": "host I/O",
    "complete": "emulator completes",
    "deliver": "interrupt delivered",
    "pending": "pending, virtual CPU off",
    "handle": "guest's handler",
    "wake": "task woken",
    "preempted": "virtual CPU off elsewhere",
    "emulator_off": "emulator off",
    "unexplained": "unexplained",
}
"""Of each part of a request's way."""
