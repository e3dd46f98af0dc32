"""The operator's verbs, shared by the command line and extras.

    keys       makes keys, and replaces them
    audits     an audit, of which extras are told if it fails
    fields     one list of fields for JSON and tables; the names of processes that serve
    views      the fields of accounts, keys, entries and receipts

Other folders import these modules, not what is in them: `from gateway.admin import keys`.
May import: `base`, `config`, `extension`, `ledger`.
"""
