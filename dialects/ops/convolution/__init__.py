"""Convolutions, and what else looks through windows."""
