"""Numbered, forward-only SQL, and the runner that applies it."""

from migrations.runner import Migration, MigrationError, apply, known, pending, version

__all__ = ["Migration", "MigrationError", "apply", "known", "pending", "version"]
