"""The extras, a folder for each. See `extension`.

Each may be deleted together with its folder in the tests; what is lost stands in its docstring. They may
import all of the core, and of each other only what `Extra.needs` names.
"""
