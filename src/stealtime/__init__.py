"""A laboratory for virtual machines."""

TYPE_CHECKING = False
"""As of ``typing``, which takes longer to load than all else until Ctrl-C is taken (see ``stealtime.start``)."""

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Look the version up once somebody asks: that takes longer than all else before a command is loaded."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        # It is read from a file.
        return globals().setdefault(name, version("stealtime"))
