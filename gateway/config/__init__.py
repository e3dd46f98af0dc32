"""Read gateway.toml into frozen records, checked as a whole.

    settings   the table of all keys: reader, meaning, default
    records    the configuration as records
    load       makes the records: storage; the rules that involve several tables
    providers  the providers: their addresses, keys and proxies
    authorities  certificates that are trusted beside the system's
    models     the models: their kinds, names and routes
    prices     their prices, and what their providers bill
    values     readers of values with special rules: addresses, headers, routes
    secrets    where a secret is, and its look-up
    scalars    readers of numbers, texts and choices
    reader     reads TOML tables into typed values; errors name the place and the rule, all at once

May import: `base`, `dialects` (for the names of what changes a bill), `ledger` (for locations and limits),
`extension` (for the tables of extras, and advice).
"""
