"""How providers answer and what was refused: the commands `providers` and `refusals`.

Without it the ledger counts the same, and nobody judges it: the log has each failure and refusal.

health  judges providers by their latest calls; latencies, refusals
verbs   the two commands
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(
    words={
        "providers": "Show how the providers answer: calls, failures, the last error, latencies.",
        "refusals": "Show which requests were refused, for whom and why.",
    }
)
