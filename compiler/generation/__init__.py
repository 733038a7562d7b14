"""Generating text with a GPT-2: its programs (one reads a prompt, one gives the next token), and sampling of tokens."""
