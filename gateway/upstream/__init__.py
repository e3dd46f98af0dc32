"""The way to the providers: routes, connections, failures.

    routing     which providers serve a model, in which order, and when the next one is tried
    breaker     the circuit breaker of a provider
    forwarder   requests to one provider, and the meaning of its failures
    attempt     one try at one route: its deadlines, and the way to end it early
    redaction   what a provider says of itself, taken out of errors
    pool        the connections to one provider
    dial        new connections: addresses raced, TLS
    resolver    the addresses of one host
    proxy       a tunnel through an HTTP proxy
    connection  one connection and the response under way on it
    bodies      receivers of bodies: collected whole, or checked for what they begin with
    http1       an HTTP/1.1 response read from bytes, without I/O
    ticker      one timer for everything in flight
    demo        the embedded provider; demo_embeddings makes its vectors

May import: the leaves, `config`, `dialects`.
"""

from gateway.upstream.attempt import Attempt as Attempt
from gateway.upstream.bodies import Receiver as Receiver
from gateway.upstream.breaker import BreakerState as BreakerState
from gateway.upstream.demo import DemoForwarder as DemoForwarder
from gateway.upstream.forwarder import Answer as Answer
from gateway.upstream.forwarder import Forwarder as Forwarder
from gateway.upstream.forwarder import HttpForwarder as HttpForwarder
from gateway.upstream.forwarder import fetch as fetch
from gateway.upstream.routing import Candidate as Candidate
from gateway.upstream.routing import ProviderState as ProviderState
from gateway.upstream.routing import Routes as Routes
from gateway.upstream.routing import order_routes as order_routes
from gateway.upstream.routing import try_routes as try_routes
from gateway.upstream.ticker import Ticker as Ticker
from gateway.upstream.ticker import Timed as Timed
