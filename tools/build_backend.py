"""scikit-build-core, plus torch as a build requirement only where the target environment has none.

The shared library is built against torch's headers. An environment that has the right torch already is used as it is
(the CMake finder looks there); otherwise the front end fetches torch for the build, as it would for any extension.
"""

import subprocess
import sys

from scikit_build_core.build import *  # noqa: F403  the hooks of PEP 517
from scikit_build_core.build import get_requires_for_build_wheel as _requires

TORCH = "torch==2.11.0"


def _environment_has_torch() -> bool:
    # -I: the environment itself, behind the isolation that front ends put up with PYTHONPATH
    ask = "import importlib.metadata as m; print(m.version('torch'))"
    asked = subprocess.run([sys.executable, "-I", "-c", ask], capture_output=True, text=True)
    return asked.stdout.startswith("2.11.")


def get_requires_for_build_wheel(config_settings=None):
    return _requires(config_settings) + ([] if _environment_has_torch() else [TORCH])
