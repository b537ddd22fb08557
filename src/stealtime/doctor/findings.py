"""Runs all checks, in the order of the table."""

from collections.abc import Callable, Sequence

from stealtime.doctor import clock, memory, platforms, processor, programs, scheduling, storage, tracing
from stealtime.doctor.attempts import Attempts, RealAttempts
from stealtime.doctor.files import Files
from stealtime.doctor.model import Finding
from stealtime.lab.platforms.model import Platform


async def examine(
    candidates: Sequence[Platform],
    *,
    files: Files | None = None,
    attempts: Attempts | None = None,
    on_platform: Callable[[str], None] = lambda _: None,
) -> list[Finding]:
    """Find what this machine can do and what limits its results.

    Args:
        candidates: The platforms to prove: ``registry.all_platforms()``; each may take seconds.
        files: The kernel's files; those of this machine by default.
        attempts: What must be tried; on this machine by default.
        on_platform: Told the name of each platform before it is proved.

    Returns:
        All findings, those that are well too, grouped as in ``model.Group``.
    """
    files = files or Files()
    attempts = attempts or RealAttempts()
    # The load is read first: the proofs below make load themselves.
    state = examine_state(files, attempts)
    cpus = attempts.cpu_sets()
    return [platforms.kvm_device(files), *await platforms.prove_platforms(candidates, cpus, on_platform), *state]


def examine_state(files: Files, attempts: Attempts) -> list[Finding]:
    """Find everything but the platforms: reads files and tries calls, in about a second."""
    online = processor.online_cpus(files)
    return [
        scheduling.sched_fifo(files, attempts),
        scheduling.rt_throttling(files),
        scheduling.fair_server(files, attempts, online),
        scheduling.cpu_quota(files),
        scheduling.preemption(files),
        scheduling.watchdogs(files),
        scheduling.timer_migration(files),
        scheduling.load(files, len(online)),
        clock.tsc(files),
        clock.clocksource(files),
        clock.hypervisor(files, attempts),
        processor.cpus(files, attempts),
        processor.isolation(files, attempts),
        processor.governor(files),
        processor.turbo(files),
        processor.smt(files),
        processor.idle_states(files),
        memory.free_memory(files),
        memory.memory_lock(files, attempts),
        memory.swap(files),
        memory.transparent_huge_pages(files),
        memory.huge_pages(files),
        memory.ksm(files),
        memory.numa_balancing(files),
        memory.resting_memory(attempts),
        tracing.tracefs(files, attempts),
        tracing.function_tracer(attempts),
        tracing.perf(files, attempts),
        tracing.lockdown(files),
        tracing.cgroups(files),
        programs.run_programs(files, attempts),
        programs.development_programs(files, attempts),
        storage.agent(attempts),
        storage.data_folder(attempts),
        storage.cache_folder(attempts),
    ]
