"""The messages dialect (Anthropic's).

caller    what callers send, the errors and lists they get, and typed access to a request
upstream  how providers are asked, earlier turns as Anthropic takes them, and JSON replies
stream    replies and events read: usage, the text to estimate it from, and the stream that passes
"""
