"""Budgets with a name, which several keys of an account can share.

Without it a key has a budget of its own or none. Keys that share one from before go on to spend from it.

book   budgets created, shown, edited and ended
verbs  `budget add`, `budget list`, `budget edit`, `budget remove`
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(first_words={"budget": "Manage budgets, which begin anew each day, week or month."})
