"""Numbered, forward-only SQL, and the runner that applies it."""

from migrations.runner import Migration, MigrationError, NewerSchema, apply, known, pending, turn, version

__all__ = ["Migration", "MigrationError", "NewerSchema", "apply", "known", "pending", "turn", "version"]
