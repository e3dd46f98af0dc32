"""The way to the providers: routes, connections, failures.

    routing     which providers serve a model, in which order, and when the next one is tried
    provider    a provider at run time: requests in flight, pauses that it asked for, circuit breakers
    keys        the keys of a provider, some of which rest
    forwarder   requests to one provider: their heads, its keys and connections, the meaning of its failures
    attempt     one try at one route: its deadlines, what takes the answer, early ends
    dial        new connections to one provider: addresses raced, TLS, proxies
    resolver    the addresses of one host
    connection  the connections to one provider: what each sends, and reads in pieces and turns; the idle ones
    response    the response under way: handed to its receiver, awaited by its user
    http1       an HTTP/1.1 response read from bytes, without I/O
    receivers   what takes a body: kept whole, checked at its beginning, or unpacked in small steps
    demo        the embedded provider

May import: `base`, `config`, `dialects`, `extension`.
"""
