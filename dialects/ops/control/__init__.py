"""Ops with bodies: what is done, how often, and with which gradient."""
