"""Ops that choose what is done."""
