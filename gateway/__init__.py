"""An LLM gateway: keys, balances and an exact ledger in front of several upstream providers.

    base/       errors, money, prices, times, ids, turns: what all others use
    config/     gateway.toml as records, checked as a whole
    dialects/   the wire formats, without I/O: callers, upstreams, translations, streams
    ledger/     accounts, keys, holds, charges: two contracts and what implements them
    upstream/   requests to providers: routes, breaker, connections
    api/        `/v1`: from the request of a caller to its reply
    admin/      the operator's verbs, shared by command line and extras
    server/     the process: the application, sockets, signals, draining, systemd, the first start
    cli/  __main__   the command line, `python -m gateway`
    extension  extras/   optional features, each a folder that may be deleted

How `POST /v1/chat/completions` is served over a Messages provider: read these first, in this order.
An indented description is a part of the step above it.

    api.aiohttp_insides.PacedConnection  bytes from the caller's socket, to aiohttp's parser
    api.routes.add_api                   which path has which handler, in which layers
    api.front.make_front                 the outermost layer: the record of a request, its id, errors as replies
    api.keys.require_key                 key and account, rates, balance
    api.completions.serve_completion     the handler; its task does all below, unless a step names another
    api.bodies.read_body                   the body, counted in memory
    dialects.chat.dialect.ChatCaller       checks the caller's request
    api.admission.admit                    model, routes that can carry the request, upstream payload
    upstream.routing.Routes                  a model's routes, made at start and reload: provider, exchange
    dialects.exchanges.Exchange              a pair of dialects, such as chat over messages:
    dialects.translate.chat_over_messages_request.translate_request   writes it for the provider
    api.billing.open_bill                    the expected cost, the hold, and its settlement
    api.completions.Relay                  the driver: the hold confirmed, routes, the end
    base.deadlines.Ticker                    ten times a second: deadlines, and whether the caller is there
    upstream.routing.try_routes              the next route, only where no work was done
    upstream.forwarder.HttpForwarder         key and connection, and what failures mean
    upstream.attempt.Attempt                 one try, and its deadlines
    upstream.response.Response               the answer; its connection's transport pushes bytes to its receiver:
     api.delivery.StreamDelivery              provider's bytes in, caller's bytes out
    dialects.wire.stream.TranslatedStream      events in, events out, tokens metered
    dialects.messages.stream.MessagesReader    what the provider's events say
    dialects.translate.chat_over_messages_reply.ChunkWriter   the caller's events
    api.lifecycle.ENDINGS                    the table that decides who pays for which ending
    ledger.serving.ledger.ServingLedger      hold, confirm, settle: decided in memory
    ledger.serving.writer.Writer             commits its queue in rounds of callbacks; then last bytes leave
    ledger.sqlite.store.SqliteStore          its thread, which alone writes
    ledger.sqlite.batch.commit_requests      the transaction: request, entry, balance
    api.sink.StreamSink, api.sink.JsonReply  writes to the caller

Each folder's docstring says what is in it and what it may import. `docs/` has the references.
"""
