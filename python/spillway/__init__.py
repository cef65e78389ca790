"""Spillway keeps PyTorch training inside a byte budget.

This package is the thin Python door: `lib/` holds the shared library torch loads, `bin/` the native command-line tool.
Importing it imports no torch; `enable` and what follows it do.
"""

from spillway._version import __version__
from spillway.api import budget, disable, enable, is_enabled, resident, set_budget, stats, step

__all__ = ["__version__", "budget", "disable", "enable", "is_enabled", "resident", "set_budget", "stats", "step"]
