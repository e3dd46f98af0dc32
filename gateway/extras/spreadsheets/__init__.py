"""CSV that a spreadsheet can open safely, for other extras: no cell of it is run as a formula.

It serves nothing by itself.

tables  rows as CSV, and the option `--csv` of commands
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra()
