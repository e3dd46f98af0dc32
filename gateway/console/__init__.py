"""The console: a JSON API under /console/api and the page that is its first user.

    dispatch    a request's checks in order: origin, caller, role, body; then its handler, and the reply
    callers     who sends a request: a session, a token, or a name that a proxy vouches for; where it
                comes from: site, address, device; headers and cookies
    routes      the records of one request, the decorators of handlers, idempotency
    state       what all requests share: threads for books and passwords, lag, last audit
    fields      a request's fields and query, and errors as JSON
    lists       lists in pages, and as CSV
    throttle    rate limits for what can be guessed; cookies of browsers that are known
    pages  static/    the page's files

The handlers of the API, by subject. docs/console-api.md has all routes.

    session     sign in, sign out, who is signed in; the people who sign in to an account
    overview    the overview of an account, and that of the gateway; operators: what providers bill, and
                the margin
    keys        the signed-in account's keys, and budgets that keys share; operators: tokens of scripts
    usage       one's requests to models; usage by day, hour, model or key; the models
    settings    one's password, one-time codes and sessions; alerts
    billing     the balance and its entries, redeeming codes; credit bought by card: orders, payment pages,
                receipts; operators: entries, orders and statements of all
    accounts    operators: accounts, and top-up codes
    operations  operators: health, how providers answer, refusals, audit, the log of events

May import: the leaves, `config`, `dialects`, `ledger`, `upstream`, `admin`, `extras`, `api`.
"""
