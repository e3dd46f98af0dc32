"""The operator's verbs, shared by the command line and extras.

    keys       makes keys, and replaces them
    audits     an audit, of which extras are told if it fails
    fields     one list of fields for JSON and tables; the names of processes that serve
    views      the fields of accounts, keys, entries and audits

May import: `base`, `config`, `extension`, `ledger`.
"""
