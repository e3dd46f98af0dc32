"""Report on many calls: lists of calls and entries, sums of usage, statements of a month.

Without it the ledger writes the same sums, and nothing shows them: a call is found by its id with
`receipt`, a balance and its latest entries with `account show`. The console is not there either.

    records     filters; calls, sums, and lines of a statement
    calls       calls by account, key, model, provider and ending: the latest, or the slowest
    filters     the SQL that finds them, each by an index
    usage       sums of usage and of what providers bill, by day, hour, model, key, account, provider
    sums        the SQL of these sums
    entries     entries of one account or of all, a run at a time
    statements  what moved the balances in a period
    standings   accounts in lists, with what they spent and how long they last
    ranks       accounts in the order of what they have or spent
    views       the fields of these for tables, JSON and CSV; the latest rows, as a command shows them
    verbs       `usage`, `calls`, `statement`, `entries`, `account list` with more columns
"""

from __future__ import annotations

from gateway.extension import Extra

EXTRA = Extra(
    needs=("observations", "spreadsheets"),
    first_words={
        "account": "",
        "statement": (
            "Show a calendar month: each account's opening balance, what moved it, and its closing"
            " balance. Charges belong to the UTC day on which their request ended."
        ),
        "usage": "Sum up the requests, tokens and cost of all accounts or of one.",
        "calls": "List calls of all accounts, the latest first. What was said in them is kept nowhere.",
        "entries": "List the entries of all accounts or of one, the latest first.",
    },
)
