"""The numbers of `GET /metrics`: counts, times and tokens of all requests, for Prometheus.

    families   counters, gauges and histograms, and their text, without I/O
    collected  the gateway's families: what is counted when a request ends, what is read at a scrape

Nothing is counted unless `[metrics] listen` is set. Every label has a bounded set of values: no
key, account, path or request id is one. Names follow OpenTelemetry's conventions for generative AI
where there is one: `gen_ai.server.request.duration` is `gen_ai_server_request_duration_seconds`.

May import: the leaves, `api`, `ledger`.
"""
