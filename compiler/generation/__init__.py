"""Generating text with a GPT-2."""
