"""The reference of the API and of the commands.

Without it callers have the documents alone, and shells complete nothing.

completion  scripts by which shells complete commands
verbs       the command that prints them
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(words={"completion": "Print what makes bash, zsh or fish complete the commands."})
