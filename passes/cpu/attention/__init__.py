"""Attention and its gradient on processors."""
