"""What the shell offers for an argument after ``stealtime --install-completion``."""


def campaigns(incomplete: str) -> list[str]:
    """Give the builtin campaigns that begin so; files are offered by the shell itself."""
    from stealtime.campaigns.file import builtin_names

    return _beginning(builtin_names(), incomplete)


def platforms(incomplete: str) -> list[str]:
    from stealtime.campaigns.aliases import ALIASES
    from stealtime.lab.platforms.registry import all_platforms

    return _beginning([*(platform.name for platform in all_platforms()), *ALIASES], incomplete)


def scenarios(incomplete: str) -> list[str]:
    from stealtime.lab.scenarios.model import SCENARIOS

    return _beginning(list(SCENARIOS), incomplete)


def probes(incomplete: str) -> list[str]:
    from stealtime.campaigns import registry

    return _beginning(list(registry.probes()), incomplete)


def runs(incomplete: str) -> list[str]:
    """Give the runs in the default folder that begin so, and ``last``."""
    from stealtime.store.run import default_runs_folder, runs_in

    return _beginning(["last", *(path.name for path in runs_in(default_runs_folder()))], incomplete)


def published(incomplete: str) -> list[str]:
    from stealtime.report.claims.library import published_names
    from stealtime.report.claims.statements import statement_names

    return _beginning(sorted((*published_names(), *statement_names())), incomplete)


def bars(incomplete: str) -> list[str]:
    """Give the bars of acceptance that begin so; files are offered by the shell itself."""
    from stealtime.report.acceptance.library import bar_names

    return _beginning(bar_names(), incomplete)


def _beginning(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
