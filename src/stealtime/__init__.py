"""A laboratory for virtual machines."""

from importlib.metadata import version

__version__ = version("stealtime")
