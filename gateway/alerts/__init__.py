"""Alerts: what is wrong is noticed within seconds, queued in the ledger, and delivered at least once.

    watch        the chore: what is wrong just now; queues what is new
    findings     what is wrong by what the process knows: providers, usage, budgets, backups
    delivery     the other chore: delivers what is due, with back-off
    webhook      one signed request to a webhook
    guard        the addresses to which a holder's webhook may not connect
    command      one run of the operator's command

No request waits for any of it: both look every few seconds, the ledger in a thread, and they do
nothing while `[alerts]` names neither a webhook nor a command. An alert is sent again until its
receiver has confirmed it; a kill between the two makes a receiver see the same id twice.

May import: the leaves, `config`, `ledger`, `upstream`, `admin`, `api`.
"""
