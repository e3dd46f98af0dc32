"""The console: a JSON API under /console/api and the page that is its first user.

    dispatch            every route, and a request's checks in order: origin, caller, role, body; then its handler
    callers             who sends a request: a session, a token, or a name that a proxy vouches for
    state               what all requests share, the records of one request, failures, lag, last audit
    api/                the handlers
    fields  paging      a request's fields and query, lists in pages
    idempotency         routes that need an Idempotency-Key
    refusals            errors as JSON
    books_thread        runs functions on the books in a worker thread
    password_hashing    computes password hashes in worker threads
    throttle            rate limits for what can be guessed; cookies of browsers that are known
    origin              where a request comes from: site, address, device; headers and cookies
    csv_stream          lists as CSV
    pages  static/      the page's files, and objects that it alone shows

May import: the leaves, `config`, `ledger`, `upstream`, `admin`, `alerts`, `api`.
"""
