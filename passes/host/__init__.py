"""Passes over the host program: where values lie, which calls run together, the plan that the runtime reads."""
