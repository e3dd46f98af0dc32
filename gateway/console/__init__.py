"""The console: a JSON API under /console/api and the page that is its first user.

    dispatch    a request's checks in order: origin, caller, role, body; then its handler, and the reply
    callers     who sends a request: a session, a token, or a name that a proxy vouches for
    routes      the records of one request, the decorators of handlers, idempotency
    api/        the handlers
    state       what all requests share: threads for books and passwords, lag, last audit
    fields      a request's fields and query, and errors as JSON
    lists       lists in pages, and as CSV
    throttle    rate limits for what can be guessed; cookies of browsers that are known
    origin      where a request comes from: site, address, device; headers and cookies
    pages  static/    the page's files

May import: the leaves, `config`, `ledger`, `upstream`, `admin`, `alerts`, `api`.
"""
