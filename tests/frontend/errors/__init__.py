"""Errors that users meet: bad input, and what documentation says of it."""
