"""Losses, by the names that they have in torch."""
