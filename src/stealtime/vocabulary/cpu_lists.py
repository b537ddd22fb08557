"""Lists of CPUs as the kernel writes them."""


def parse_cpu_list(text: str) -> list[int]:
    """Read a list of CPUs as the kernel writes it: ``0-2,5`` is 0, 1, 2, 5.

    Raises:
        ValueError: ``text`` is no such list.
    """
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus
