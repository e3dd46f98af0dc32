"""The operator's verbs, shared by the command line and the console.

    accounts   accounts, balances, usage, backups
    keys       keys and their terms
    budgets    budgets that keys spend from
    codes      top-up codes
    alerts     alerts as JSON, and an audit that raises one
    observations   how providers answer, and what was refused
    signin     passwords, sign-in links, sessions
    totp       one-time codes, which are asked for beside a password
    moves      a whole ledger to a file and back
    reload     asks the serving process to read gateway.toml again
    nodes      the names of processes that serve from one ledger
    tokens     tokens of scripts
    checks     checks of names, notes, amounts and dates
    passwords  weak passwords, and password hashes
    views      accounts, keys, entries, codes and calls as JSON objects
    csv_text   CSV that a spreadsheet can open safely

Other folders import these modules, not what is in them: `from gateway.admin import keys`.
May import: the leaves, `config`, `ledger`.
"""
