"""The operator's books: each module implements some parts over one shared connection.

books     the parts together, events and replies among them
database  the shared connection: reading, changing, noting events
accounts  keys  budgets  entries (and codes)  calls  usage  signins  credentials
alerts  observations      the parts
"""
