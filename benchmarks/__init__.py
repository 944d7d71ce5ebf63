"""Measurements of the product as shipped; bars live here, never in a timed test."""
