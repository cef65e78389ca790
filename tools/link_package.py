"""Makes a staged package importable in the Python that runs this, and `spillway` a command of it.

    python tools/link_package.py <folder that holds spillway/>

Writes one .pth file and one script, and says nothing when both are already right.
"""

import pathlib
import subprocess
import sys
import sysconfig

PTH = "spillway-build.pth"

SCRIPT = """#!{python}
import sys

from spillway.cli import main

sys.exit(main())
"""


def write_if_changed(path: pathlib.Path, text: str, mode: int) -> None:
    if path.exists() and path.read_text() == text:
        return
    path.write_text(text)
    path.chmod(mode)
    print(f"wrote {path}")


def imported_from() -> str:
    ask = "import spillway, os; print(os.path.dirname(spillway.__file__))"
    return subprocess.run([sys.executable, "-P", "-c", ask] if sys.version_info >= (3, 11) else [sys.executable, "-c", ask],
                          capture_output=True, text=True, cwd="/").stdout.strip()


def main(stage: str) -> int:
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    try:
        write_if_changed(packages / PTH, stage + "\n", 0o644)
        write_if_changed(scripts / "spillway", SCRIPT.format(python=sys.executable), 0o755)
    except OSError as error:
        print(f"spillway: {error}", file=sys.stderr)
        return 1
    found = imported_from()
    if found != str(pathlib.Path(stage) / "spillway"):
        print(f"spillway: another spillway is installed in {found or 'no place that can be imported'}; "
              f"remove it with: {sys.executable} -m pip uninstall spillway", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
