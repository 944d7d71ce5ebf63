"""Tests that guard the shape of the tree; what one of them prints says what to do."""
