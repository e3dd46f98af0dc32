"""Optional packages that other extras need: says how they are installed.

It serves nothing by itself.

install  the command that installs a package, by how this gateway was installed
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra()
