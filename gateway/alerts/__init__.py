"""Alerts: what is wrong is noticed within seconds, queued in the ledger, and delivered at least once.

    watch      the chore: finds what is wrong with providers, usage, budgets, backups; queues what is new
    delivery   delivers what is due, with back-off: a signed request to a webhook, whose address may not
               be forbidden, or a run of the command

No request waits for this: the chore runs every few seconds, on the ledger in a thread, and does
nothing while `[alerts]` names neither a webhook nor a command. An alert is sent again until its
receiver has confirmed it; after a kill between the two, a receiver sees the same id twice.

May import: the leaves, `config`, `ledger`, `upstream`, `admin`, `api`.
"""
