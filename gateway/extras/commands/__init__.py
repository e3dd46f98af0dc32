"""Operators' commands, run without a shell or secrets: that which gets alerts, and those that print keys.

It serves nothing by itself.

running  runs a command, within a limit of time and of output
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra()
