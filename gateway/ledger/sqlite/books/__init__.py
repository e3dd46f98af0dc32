"""The operator's books: each module implements one part over one shared connection.

books     the parts together, repeated requests, the audit and the backup
database  the shared connection: reading, changing, noting events
accounts  keys  codes  entries  calls  usage  signins  events   the parts
"""
