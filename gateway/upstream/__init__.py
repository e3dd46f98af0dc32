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

from gateway.upstream.attempt import Answer as Answer
from gateway.upstream.attempt import Attempt as Attempt
from gateway.upstream.attempt import Ticker as Ticker
from gateway.upstream.attempt import Timed as Timed
from gateway.upstream.bodies import Receiver as Receiver
from gateway.upstream.breaker import BreakerState as BreakerState
from gateway.upstream.demo import DemoForwarder as DemoForwarder
from gateway.upstream.forwarder import Forwarder as Forwarder
from gateway.upstream.forwarder import HttpForwarder as HttpForwarder
from gateway.upstream.forwarder import fetch as fetch
from gateway.upstream.forwarder import take_out as take_out
from gateway.upstream.model_list import Finding as Finding
from gateway.upstream.model_list import look_at as look_at
from gateway.upstream.model_list import look_at_all as look_at_all
from gateway.upstream.provider_state import ProviderState as ProviderState
from gateway.upstream.resolver import Resolver as Resolver
from gateway.upstream.routing import Candidate as Candidate
from gateway.upstream.routing import Routes as Routes
from gateway.upstream.routing import order_routes as order_routes
from gateway.upstream.routing import try_routes as try_routes
