"""Agents that go on: loops of several turns with tools, over scripted vendors.

vendors    one function per vendor's habit: a request in, a reply or the vendor's own refusal out
market     serves them all on one scripted upstream, and notes what each was sent
loop       the agents: callers of the three dialects by the vendors' SDKs
"""
