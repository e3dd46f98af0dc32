"""The command `top`: what happens now, in a terminal.

Without it the same is read in the console, or by `providers`, `calls` and `account list`, one by one.

verbs     the command: reads, draws and waits until it is ended
snapshot  what is shown, as the ledger has it
screen    a snapshot as text of a width and height; the terminal's modes and keys
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(
    needs=("operations",),
    first_words={
        "top": (
            "Show what happens now, again and again: calls in flight, rates, failing providers, slow"
            " calls, low balances. `q` or Ctrl-C ends it."
        )
    },
)
