"""Alerts: what is wrong is noticed within seconds, queued in the ledger, and delivered at least once.

    watch      the chore: finds what is wrong with providers, usage, budgets, backups; queues what is new
    delivery   delivers what is due, with back-off
    channels   one signed request to a webhook, one run of the command; addresses that are forbidden

No request waits for this: the chore runs every few seconds, on the ledger in a thread, and does
nothing while `[alerts]` names neither a webhook nor a command. An alert is sent again until its
receiver has confirmed it; after a kill between the two, a receiver sees the same id twice.

May import: the leaves, `config`, `ledger`, `upstream`, `admin`, `api`.
"""
