"""Latency and failures over time.

test_trends   a provider that turns slow at noon for half of the accounts is found, from rows and from sums
console       the routes
browser       the page: a span is chosen by keyboard, and shown
"""
