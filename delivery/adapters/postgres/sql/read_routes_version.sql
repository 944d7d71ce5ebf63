-- The version of everything that the relay routes by; read after the claim, by a statement of its own.
SELECT version FROM tidings.routes_version
