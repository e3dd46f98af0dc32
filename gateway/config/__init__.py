"""Read gateway.toml into frozen records, checked as a whole.

    settings   the table of all keys: reader, meaning, default
    model_settings   the part of models and prices
    records    the configuration as records
    load       makes the records; the rules that involve several keys; what a reload changes
    providers  the providers: their addresses, their keys resolved
    storage    where the ledger is, and where alerts go, with secrets looked up
    prices     the prices of a model, and their rules
    values     readers of values with special rules: addresses, headers, routes
    secrets    where a secret is, and its look-up
    reader     reads TOML into typed values; errors name the place and the rule, all at once

May import: the leaves, `dialects` (for the names of what changes a bill), `ledger` (for locations).
"""
