"""The console: a JSON API under /console/api and the page that is its first user.

    routes              every route of the API and of the page
    dispatch            a request's checks in order: origin, caller, role, body; then its handler
    callers             who sends a request: a session, a token, or a name that a proxy vouches for
    state               what all requests share, and the records of one request
    api/                the handlers
    fields  paging      a request's fields and query, lists in pages
    idempotency         routes that need an Idempotency-Key
    refusals            errors as JSON
    books_thread        runs functions on the books in a worker thread
    password_hashing    computes password hashes in worker threads
    throttle            rate limits for sign-ins and other things that can be guessed
    origin              where a request comes from: site, address, device
    browser             security headers and cookies
    devices             cookies of browsers that have signed in before
    views  csv_stream   accounts and lists as JSON and CSV
    process_state       failures, event loop lag and the last audit of this process
    pages  static/      the page's files

Other folders import from here. May import: the leaves, `config`, `ledger`, `upstream`, `admin`, `alerts`, `api`.
"""

from gateway.console.routes import add_console as add_console
