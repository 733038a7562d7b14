"""Attention and its gradient on GPUs."""
