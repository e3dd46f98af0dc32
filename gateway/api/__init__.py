"""`/v1`: everything between a caller's request and its reply.

    routes          the routes of the API, each wrapped in the layers that it needs
    middleware      the layers: request id and dialect, then caller, rate, balance
    state           the state that requests share, and the record that each one carries
    limits          the rates of keys and accounts
    ended_keys      when a revoked or expired key ended
    unknown_models  why there is no such model, and what may have been meant
    reading         the caller's connection: read in small pieces, and no further than wanted
    body            the body: its size, its deadlines
    memory          the bytes of bodies and replies, counted by account
    large_bodies    large ones: bounded, and parsed in a worker thread
    completions     the handler of the completion surfaces
    admission       model, routes, hold
    billing         the expected cost, the hold, the one settlement
    missing_usage   replies without a usage: counted, and logged once an hour
    lifecycle       the life of a completion, without I/O; the table of who pays when
    relay           the driver of one completion: routes, deadlines, callers that leave
    delivery        the provider's reply on its way to the caller
    conclusion      the charge, then the last bytes
    json_reply      a JSON reply, which leaves in one write and counts until its caller has it
    sink            the caller's side of a reply
    error_replies   errors as responses
    connection      a caller's connection: answers what the parser refuses
    other_paths     what to use instead of a path that nobody has
    count_tokens, models, own_key, receipts, health   the other endpoints
    observations    counts for operators: refusals, and how providers answered
    access_log      the log line of each request

May import: the leaves, `config`, `dialects`, `ledger`, `upstream`.
"""

from gateway.api.access_log import AccessLog as AccessLog
from gateway.api.connection import CallerConnection as CallerConnection
from gateway.api.connection import make_connection as make_connection
from gateway.api.connection import note_known as note_known
from gateway.api.json_reply import SERVER as SERVER
from gateway.api.middleware import Handler as Handler
from gateway.api.middleware import make_front as make_front
from gateway.api.missing_usage import MissingUsage as MissingUsage
from gateway.api.other_paths import explain_path as explain_path
from gateway.api.reading import has_tiny_chunks as has_tiny_chunks
from gateway.api.reading import want_body as want_body
from gateway.api.routes import add_api as add_api
from gateway.api.state import Call as Call
from gateway.api.state import Gateway as Gateway
from gateway.api.state import make_headers as make_headers
