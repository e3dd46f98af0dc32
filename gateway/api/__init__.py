"""`/v1`: everything between a caller's request and its reply.

    routes          the routes of the API, each wrapped in the layers that it needs
    middleware      the layers: request id and dialect, then caller, rate, balance
    call            the record that each request carries
    state           the state that all requests share
    limits          the rates of keys and accounts
    ended_keys      when a revoked or expired key ended
    reading         the caller's connection: read in small pieces; what the parser refuses is answered
    bodies          bodies: read within deadlines, counted in memory, parsed where it delays nobody
    completions     the handlers of the completion surfaces, and of the count of their tokens
    admission       model, routes, hold
    billing         the expected cost, the hold, the one settlement
    lifecycle       the life of a completion, without I/O; the table of who pays when
    relay           the driver of one completion: routes, deadlines, callers that leave
    delivery        the provider's reply on its way to the caller
    conclusion      the charge, then the last bytes
    sink            the caller's side of a reply
    error_replies   errors as responses, and what to use instead of a path that nobody has
    models, own_key, health   the other endpoints
    observations    counts for operators, and the log line of each request

May import: the leaves, `config`, `dialects`, `ledger`, `upstream`.
"""
