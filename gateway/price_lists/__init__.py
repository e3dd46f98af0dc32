"""Price lists that others publish, compared with gateway.toml. Nothing is fetched or applied.

    lists       opens a list, names what is wrong with it, finds the entry of a route
    comparison  what agrees, what drifts, what no list has; TOML to paste, with the old prices

May import: the leaves, `config`.
"""
