"""What the black-box tests share. Of the server, only `accounts` is imported, to seed databases.

upstream   ScriptedUpstream: a raw TCP server that plays what a provider might do
replies    the bytes it plays: JSON replies, streams, cut and broken ones
client     a byte-exact HTTP client: one connection, one request, what came back
config     the gateway.toml of the test gateways
seed       the accounts and keys they know
process    GatewayProcess: start, log, stop, secrets found where they should not be
running    a gateway with its callers and its books; stage: that, with two upstreams
books      the gateway's database, read from outside
chat       requests, prices, the error envelopes, the rules of a stream
messages   the same of the other dialect, and what its providers send
told       what a reply says whatever its dialect
pairs      real SDKs and scripted providers of both dialects, in all four pairs
recorded   recorded streams and an independent account of what they say
waiting    for what has no event
"""
