"""The way to the providers: routes, connections, failures.

    routing     which providers serve a model, in which order, and when the next one is tried
    provider_state   a provider at run time: load, breakers, rests
    breaker     the circuit breaker of a provider
    forwarder   requests to one provider, and the meaning of its failures, without its secrets
    keyring     the keys of one provider: which one serves, and which rest
    attempt     one try at one route: one timer for all deadlines, the 200's body, the ways to end early
    dial        the connections to one provider: addresses raced, TLS, proxies, the pool
    resolver    the addresses of one host
    connection  one connection and the response under way on it
    bodies      receivers of bodies: collected whole, or checked for what they begin with
    http1       an HTTP/1.1 response read from bytes, without I/O
    model_list  a look at a provider's list of models, for `check --live`
    demo        the embedded provider

May import: the leaves, `config`, `dialects`.
"""
