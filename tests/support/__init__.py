"""Helpers of the black-box tests. Of the package they import what writes seeds and configurations.

upstream   ScriptedUpstream: a raw TCP server that plays a provider, good or broken
replies    the bytes it sends: JSON replies, streams, cut and broken ones
client     a byte-exact HTTP client: one connection, one request, one reply
config     the gateway.toml of the test gateways
seed       their accounts and keys
process    GatewayProcess: starts and stops a gateway, reads its log, searches for secrets
running    a gateway with its callers and books
stage      a gateway with two upstreams
books      the gateway's database, read from outside
chat       chat requests, prices, error envelopes, rules of a stream
messages   the same for the messages dialect, and its providers' replies
embeddings requests for vectors, their providers' replies, and vectors read back
texts      text completions: requests, and their providers' replies and events
content    the content of a reply, independent of the dialect
sdks       the SDKs of OpenAI and Anthropic as clients of a gateway
pairs      callers by these and scripted providers, in all pairs of dialects
extras     what the tests of extras have for others
memory     a folder in memory, where there is room
waiting    polls for conditions that have no event
cli        runs the command line in this process
settings   test configurations, written and loaded
fuzz       settings of the property tests
"""
