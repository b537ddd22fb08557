"""Names that stand for a platform of a kind: the KVM flavour where it is usable, else TCG, never called KVM. Pure."""

from collections.abc import Mapping, Sequence

from stealtime.campaigns.model import USABLE
from stealtime.store.model import PlatformRecord

ALIASES: Mapping[str, tuple[str, ...]] = {
    "emulated": ("qemu-kvm-emulated", "qemu-tcg-emulated"),
    "paravirt": ("qemu-kvm-paravirt", "qemu-tcg-paravirt"),
}
"""What each alias may stand for, the better one first."""


def wanted_platforms(wanted: Sequence[str], all_names: Sequence[str]) -> list[str]:
    """Give the names that a campaign may use, each once.

    Args:
        wanted: As the campaign says: names, aliases, ``usable``.
        all_names: Of all platforms of this host, for ``usable``.
    """
    names: list[str] = []
    for name in wanted:
        names += all_names if name == USABLE else ALIASES.get(name, (name,))
    return list(dict.fromkeys(names))


def resolve(wanted: Sequence[str], records: Sequence[PlatformRecord]) -> tuple[list[PlatformRecord], dict[str, str]]:
    """Choose one platform for each alias.

    Args:
        wanted: As the campaign says.
        records: Of all that :func:`wanted_platforms` gave, checked.

    Returns:
        The records that the plan is about, in order, and what each alias stands for here. Where nothing that an alias
        may stand for is usable, it stands for the last one, which is then skipped.
    """
    by_name = {record.name: record for record in records}
    stands_for: dict[str, str] = {}
    for alias in wanted:
        if alias in ALIASES:
            candidates = [by_name[name] for name in ALIASES[alias] if name in by_name]
            chosen = next((record for record in candidates if record.usable), candidates[-1])
            stands_for[alias] = chosen.name
    if USABLE in wanted:
        return list(records), stands_for
    meant = {stands_for.get(name, name) for name in wanted}
    return [record for record in records if record.name in meant], stands_for


def alias_words(stands_for: Mapping[str, str], records: Sequence[PlatformRecord]) -> list[str]:
    """Say what each alias stands for, and why for nothing better."""
    by_name = {record.name: record for record in records}
    lines = []
    for alias, name in stands_for.items():
        better = ALIASES[alias][: ALIASES[alias].index(name)]
        why = "; ".join(f"{one} cannot be used: {by_name[one].reason}" for one in better if one in by_name)
        lines.append(f"{alias} stands for {name}" + (f" ({why})" if why else ""))
    return lines
