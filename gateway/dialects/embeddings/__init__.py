"""The embeddings API (OpenAI's), which providers of the chat and responses dialects serve.

caller    what callers send
upstream  how providers are asked, and their replies, whose vectors pass unread
vectors   the vectors in a reply: where they are, and floats packed as base64
"""
