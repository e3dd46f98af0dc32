"""`refund` gives back the charge of a request or a part of it, once.

Without it `account correct` gives it back, and nobody looks whether that was done before.

book   what is left to give back of a request, and the correction that does
verbs  the command
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(first_words={"refund": "Give back what a request cost, or a part of it, once."})
