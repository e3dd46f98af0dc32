"""What the black-box tests share. Nothing here is a test, and nothing here imports the server.

upstream   ScriptedUpstream: a raw TCP server that plays what a provider might do
replies    the bytes it plays: JSON replies, streams, cut and broken ones
client     a byte-exact HTTP client: one connection, one request, what came back
process    GatewayProcess: configuration, start, log, stop, canaries
books      the gateway's database: seeding before the start, reading afterwards
chat       requests, prices, the error envelopes, the rules of a stream
recorded   recorded streams and an independent account of what they say
"""
