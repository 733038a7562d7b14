"""Runs passes: times, prints and dumps them, survives them, and explains what fails."""
