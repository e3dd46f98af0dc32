"""An LLM gateway: keys, balances and an exact ledger in front of several upstream providers.

    errors  money  prices  usage  times  tasks   leaves: they import no folder
    addresses  commands  ids  process   more leaves
    config/     gateway.toml as records, checked as a whole
    dialects/   the wire formats, without I/O: callers, upstreams, translations, streams
    ledger/     accounts, keys, holds, charges: two contracts and what implements them
    upstream/   requests to providers: routes, breaker, connections
    api/        `/v1`: from the request of a caller to its reply
    price_lists/   lists that others publish, compared with gateway.toml
    alerts/     what is wrong: noticed, queued, delivered to webhooks and a command
    admin/      the operator's verbs, shared by command line and console
    console/    the web page and its JSON API
    metrics     what `GET /metrics` tells: counts, times and tokens, for Prometheus
    cards/      payments by card: a provider's payment pages and webhook
    server/     the process: the application, sockets, signals, draining, systemd, the first start
    cli/        the command line
    __main__    `python -m gateway`

How a completion is served, such as `POST /v1/chat/completions`:

    api.routes        the layers around the handler of the path
    api.front         request id and dialect; errors as replies
    api.keys          key and account, rates, balance
    api.completions   the handler: admit, confirm the hold, try the routes, charge, reply
      api.bodies        read the body, and count it in memory
      api.admission     model, routes that can carry the request, upstream payload
      api.billing       the hold, and its settlement: the charge is committed, then the last bytes leave
      upstream.routing, upstream.forwarder, upstream.connection    the HTTP exchange
      api.delivery      pass on the provider's reply
        dialects.exchanges   the pipeline: provider's bytes in, caller's bytes out, tokens metered
        api.sink             writes to the caller: head, events, comments
      api.lifecycle     one table decides who pays for which ending

Each folder's docstring says what is in it, what it may import and what it offers. `docs/` has the
references: settings, formats, charges, operation, the console's API, measurements.
"""
