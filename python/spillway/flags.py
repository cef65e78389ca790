"""The flags `spillway run` and `spillway verify` share, as the words of `spillway.enable`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from spillway.alloc_conf import AllocatorWarning
from spillway.api import ALLOCATORS, DEFAULT_POLICY, WORKSPACES

BAD_INPUT = 2


_DASHES = "\0--"  # argparse drops `--` wherever it stands


class Parser(argparse.ArgumentParser):
    """One sentence on standard error and exit code 2 for whatever cannot be understood."""

    def error(self, message: str) -> NoReturn:
        # A word that begins with a minus is taken for a flag.
        fail(self.prog, message + (", and a value does not begin with a minus" if message.endswith("expected one argument") else ""))

    def parse_args(self, arguments: Sequence[str], namespace: None = None) -> argparse.Namespace:  # type: ignore[override]
        """As argparse does, but from the program on every word is the program's own, `--` among them."""
        given = super().parse_args([_DASHES if word == "--" else word for word in arguments])
        for name in ("module", "script"):
            words = ["--" if word == _DASHES else word for word in getattr(given, name, None) or []]
            if words:
                setattr(given, name, words[1:] if words[0] == "--" else words)
        return given


def fail(prog: str, message: object, code: int = BAD_INPUT) -> NoReturn:
    print(f"{prog}: {message}", file=sys.stderr)
    raise SystemExit(code)


@contextlib.contextmanager
def telling(prog: str) -> Iterator[None]:
    """What is said about torch's allocator settings inside: a line each, without the place in our code it came from."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, AllocatorWarning):
                print(f"{prog}: {message}", file=sys.stderr)
            else:
                show(message, category, *place, **more)

        warnings.simplefilter("always", AllocatorWarning)
        warnings.showwarning = tell
        yield


def make_parser(command: str, description: str) -> Parser:
    parser = Parser(
        prog=f"spillway {command}",
        description=description,
        usage=f"spillway {command} [options] script.py [arguments]\n       spillway {command} [options] -m module [arguments]",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--budget", metavar="AMOUNT", help="bytes, 8GiB, 8GB, or 60%% of the card's memory (of RAM on the CPU)")
    add("--device", default="auto", metavar="DEVICE", help="auto, cpu, cuda or cuda:N (default: auto)")
    add("--policy", default=DEFAULT_POLICY, metavar="NAME", help=f"hybrid, superneurons, tensile, capuchin, mimose, checkpoint, or without plans dtr or lru (default: {DEFAULT_POLICY})")
    add("--host-limit", metavar="AMOUNT", help="host memory for what left the device; a percentage is of RAM (default: 80%% of what is free)")
    add("--spill-dir", metavar="DIR", help="folder for what host memory cannot take (default: the temporary folder)")
    add("--workspace", default="plain", choices=WORKSPACES, help="convolution workspace (default: plain, same bits)")
    add("--allocator", default="spillway", choices=ALLOCATORS, help="who places device memory (default: spillway)")
    add("--min-evict", metavar="AMOUNT", help="smaller storages never leave")
    add("--poison", action="store_true", help="overwrite memory that was left, to find readers nobody sees")
    add("--cache", metavar="DIR", default=True, help="folder for what planned runs record, for the next run (default: $SPILLWAY_CACHE_DIR, else spillway in the user's cache folder)")
    add("--no-cache", dest="cache", action="store_const", const=False, help="keep nothing, and use nothing that was kept")
    add("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module instead of a script")
    add("script", nargs=argparse.REMAINDER, metavar="script.py", help="the program and its own arguments")
    return parser


def engine_words(flags: argparse.Namespace) -> dict[str, Any]:
    """The part of the flags that spillway.enable() takes."""
    names = ("budget", "device", "policy", "host_limit", "spill_dir", "workspace", "allocator", "poison", "min_evict", "cache")
    return {name: getattr(flags, name) for name in names}


def program(flags: argparse.Namespace) -> tuple[list[str], bool]:
    """The script or module with its arguments, and whether it is a module."""
    return (flags.module, True) if flags.module is not None else (flags.script, False)


def of_this_rank(path: str, environment: dict[str, str] | None = None) -> Path:
    """`out.json` is `out.rank1.json` for rank 1 of several processes."""
    environment = os.environ if environment is None else environment
    rank = environment.get("RANK", environment.get("LOCAL_RANK"))
    plain = Path(path)
    return plain if rank is None else plain.with_name(f"{plain.stem}.rank{rank}{plain.suffix}")


def check_writable(path: Path) -> Path:
    """The path itself, or a ValueError; an existing file keeps its content, a new one is not left behind."""
    existed = path.exists()
    try:
        with open(path, "ab"):
            pass
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from error
    if not existed:
        path.unlink()
    return path
