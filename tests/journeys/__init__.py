"""Journeys: from a recording to a real receiver, by real processes that are really killed, on a real PostgreSQL."""
