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

STAGES = {
    "guest": ("submit", "handle", "wake"),
    "guest to emulator and back": ("notify", "deliver"),
    "emulator": ("take", "complete"),
    "host I/O": ("host_io",),
    "pending, virtual CPU off": ("pending",),
    "virtual CPU off elsewhere": ("preempted",),
    "emulator off": ("emulator_off",),
    "unexplained": ("unexplained",),
}
"""Which parts a picture shows as one, so that their colours can be told apart."""
