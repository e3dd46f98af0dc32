"""The operator's verbs, shared by the command line and the console.

    accounts   accounts, balances, usage, backups
    keys       keys and their terms
    codes      top-up codes
    signin     passwords, sign-in links, sessions
    checks     checks of names, notes, amounts and dates
    passwords  password hashes
    views      accounts, keys, entries and codes as JSON objects
    csv_text   CSV that a spreadsheet can open safely

Other folders import these modules, not what is in them: `from gateway.admin import keys`.
May import: the leaves, `config`, `ledger`.
"""
