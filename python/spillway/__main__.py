"""`python -m spillway` is the `spillway` command."""

import sys

from spillway.cli import main

sys.exit(main())
