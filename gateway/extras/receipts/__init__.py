"""Show one call on the command line: how it ended, what it used and what it cost, or why it was refused.

Without it receipts are at `GET /v1/receipts/{request_id}` alone, and there is no console, which needs it.

book   a call by its request id
verbs  the verb `receipt`
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(
    needs=("observations",),
    first_words={"receipt": "Show how one call ended, what it used, and what it cost."},
)
