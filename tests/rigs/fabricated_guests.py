"""Writes a ``/proc`` with guests in it, whose counters a test turns."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class FabricatedThread:
    """A thread's name and its ``schedstat``."""

    name: str
    run_ns: int = 1_000_000
    wait_ns: int = 0
    dispatches: int = 1
    guest_ticks: int = 0


@dataclass
class FabricatedProc:
    """A folder in the form of ``/proc``; CPUs are idle until :meth:`turn` says otherwise."""

    root: Path
    cpus: int = 2
    ticks: dict[int, list[int]] = field(default_factory=dict)
    memory_kib: tuple[int, int] = (8 << 20, 6 << 20)
    pressure_us: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        for cpu in range(self.cpus):
            self.ticks.setdefault(cpu, [1000, 0, 500, 100_000, 10, 0, 5, 0, 0, 0])
        for name in ("cpu", "memory", "io"):
            self.pressure_us.setdefault(name, 0)
        self.write_host()

    def write_host(self) -> None:
        """Write the files of the host as the fields have them."""
        rows = [f"cpu{cpu} {' '.join(map(str, row))}" for cpu, row in self.ticks.items()]
        total = " ".join(str(sum(column)) for column in zip(*self.ticks.values(), strict=True))
        (self.root / "stat").write_text("\n".join([f"cpu  {total}", *rows, "intr 0", "procs_running 1", ""]))
        total_kib, available_kib = self.memory_kib
        (self.root / "meminfo").write_text(f"MemTotal: {total_kib} kB\nMemAvailable: {available_kib} kB\n")
        (self.root / "pressure").mkdir(exist_ok=True)
        for name, total_us in self.pressure_us.items():
            (self.root / "pressure" / name).write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n")

    def pass_time(self, busy_percent: Sequence[float], seconds: float = 1.0, steal_percent: float = 0.0) -> None:
        """Let time pass on each CPU."""
        for cpu, busy in enumerate(busy_percent):
            ticks = round(100 * seconds)
            worked, stolen = round(ticks * busy / 100), round(ticks * steal_percent / 100)
            self.ticks[cpu][0] += worked
            self.ticks[cpu][7] += stolen
            self.ticks[cpu][3] += ticks - worked - stolen
        self.write_host()

    def add_process(
        self, pid: int, argv: Sequence[str], threads: Sequence[FabricatedThread] = (), parent: int = 1
    ) -> None:
        """Write a process; its threads are numbered from its own id on."""
        folder = self.root / str(pid)
        folder.mkdir(exist_ok=True)
        (folder / "cmdline").write_text("\0".join(argv) + "\0")
        after_name = ["S", str(parent), *(["0"] * 17), str(1000 + pid), *(["0"] * 30)]
        (folder / "stat").write_text(f"{pid} (a name) {' '.join(after_name)}\n")
        for number, thread in enumerate(threads or [FabricatedThread("main")]):
            self.write_thread(pid, pid + number, thread)

    def write_thread(self, pid: int, tid: int, thread: FabricatedThread) -> None:
        """Write one thread's files."""
        folder = self.root / str(pid) / "task" / str(tid)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "comm").write_text(f"{thread.name}\n")
        (folder / "schedstat").write_text(f"{thread.run_ns} {thread.wait_ns} {thread.dispatches}\n")
        (folder / "status").write_text(f"Name:\t{thread.name}\nCpus_allowed_list:\t0-{self.cpus - 1}\n")
        (folder / "cgroup").write_text("0::/\n")
        if not (folder / "children").exists():
            (folder / "children").write_text("")
        fields = ["R", *(["0"] * 39), str(thread.guest_ticks), *(["0"] * 9)]
        (folder / "stat").write_text(f"{tid} ({thread.name}) {' '.join(fields)}\n")
