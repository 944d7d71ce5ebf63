"""Journeys: events from a recording to real receivers, by real processes that are really killed, on a real PostgreSQL."""
