"""The operator's books: each module implements some parts over one shared connection.

books     the parts together, and small ones: events, replies, one-time codes, tokens of scripts
database  the shared connection: reading, changing, noting events
accounts  keys  budgets  entries  codes  orders  calls  usage  signins
alerts  observations      the parts
"""
