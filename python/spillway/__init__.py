"""Spillway keeps PyTorch training inside a byte budget.

This package is the thin Python door: `lib/` holds the shared library torch loads, `bin/` the native command-line tool.
"""

from spillway._version import __version__

__all__ = ["__version__"]
