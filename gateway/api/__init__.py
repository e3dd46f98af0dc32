"""`/v1`: everything between a caller's request and its reply.

    routes          the endpoints, each wrapped in the layers that it needs
    lookups         the handlers that look something up: models, the caller's key, receipts, health
    front           the record that each request carries; the outermost layer, which begins and ends it: request id
                    and dialect, headers, errors as replies
    paths           the errors for paths that are not served, and what they advise
    wire            a caller's connection: the errors for bytes that are no HTTP request
    keys            the layer of routes that need a key: account, rates, balance
    limits          the rates of keys and accounts
    state           the state that all requests share
    aiohttp_insides   a caller's connection: bytes to aiohttp's parser, in turns; all else that is used of
                    aiohttp beyond its documented API
    lingering       the end of a refused caller's connection: what it still sends is thrown away
    bodies          bodies: read within deadlines, counted in memory, which accounts share fairly, parsed at once or
                    in the thread
    completions     the handler of completions: the hold, routes, deadlines, the charge, last bytes
    admission       model, routes that can carry the request and what it may use, hold
    billing         what a request may cost, the hold, and the one settlement
    lifecycle       the life of a completion, without I/O; the table of who pays when
    delivery        the provider's reply on its way to the caller
    sink            the caller's side of a reply: a stream, or a whole JSON reply

May import: `base`, `config`, `dialects`, `extension`, `ledger`, `upstream`.
"""
