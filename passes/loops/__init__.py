"""Passes from `blu` to linalg, and those that decide which loops run together as one kernel."""
