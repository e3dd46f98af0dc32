"""Show one call on the command line: how it ended, what it used and what it cost, or why it was refused.

Without it the same receipts are at `GET /v1/receipts/{request_id}` and in the console.

verbs  the verb `receipt`
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(first_words={"receipt": "Show how one call ended, what it used, and what it cost."})
