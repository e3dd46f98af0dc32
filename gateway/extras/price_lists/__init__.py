"""`price check` and `price propose`: the prices of gateway.toml beside a list that others publish.

Without it prices are compared by hand; what calls cost does not change.

verbs  the two commands
lists  published lists: their formats, entries and errors
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(words={"price": "Compare the prices with a list that others publish."})
