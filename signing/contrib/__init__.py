"""Glue for receivers: frameworks and a store, one module each, and each brought by who uses it.

`starlette` (and FastAPI), `asgi`, `flask`, `django`; `postgres` keeps what was handled.
"""
