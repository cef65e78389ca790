"""Where the native parts of this package are.

Paths follow the package's own folder, so they hold for a staged build and for an installed wheel alike.
"""

import pathlib

_HERE = pathlib.Path(__file__).parent

# __file__ of a staged package is a link's own path, not its target: lib/ and bin/ are beside the link.
TOOL = _HERE / "bin" / "spillway-tool"
LIBRARY = _HERE / "lib" / "libspillway_torch.so"
