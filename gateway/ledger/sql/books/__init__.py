"""The operator's books: each module implements some parts over one shared connection.

books     the parts together
database  the shared connection: reading, changing, noting events
accounts  keys  budgets  entries (and codes)  calls  usage  signins  credentials  events
alerts  observations      the parts
"""
