"""One CPU in unit steps, fixed priorities, and what each job has read: the age of data and the time of a reaction."""

from collections.abc import Sequence


def age_and_reaction(tasks: Sequence[tuple[int, int, int]], chain: Sequence[int], until: int) -> tuple[int, int]:
    """Give the oldest data at a write of the last task, and the slowest reaction to an event just missed.

    Args:
        tasks: Cost, period and arrival of the first job, the highest priority first.
        chain: Numbers of tasks, in the order of the data.
        until: In units.
    """
    written: list[int | None] = [None] * len(tasks)
    ready: list[tuple[int, int, int | None, bool]] = []  # task, left, what it has read, begun
    reads: list[int] = []
    outputs: list[tuple[int, int]] = []
    for now in range(until):
        ready += [
            (n, cost, None, False)
            for n, (cost, period, at) in enumerate(tasks)
            if now >= at and (now - at) % period == 0
        ]
        ready.sort(key=lambda job: job[0])
        if not ready:
            continue
        number, left, token, begun = ready.pop(0)
        if not begun and number in chain:
            place = chain.index(number)
            token = now if place == 0 else written[chain[place - 1]]
            if place == 0:
                reads.append(now)
        if left > 1:
            ready.insert(0, (number, left - 1, token, True))
            continue
        written[number] = token
        if number == chain[-1] and token is not None:
            outputs.append((now + 1, token))
    age = max((at - token for at, token in outputs), default=0)
    # An event just after a read is in what is read next.
    slowest = 0
    for missed in reads:
        answered = next((at for at, token in outputs if token > missed), None)
        if answered is not None:
            slowest = max(slowest, answered - missed)
    return age, slowest
