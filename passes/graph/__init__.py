"""Passes over ops of the `blu` dialect: gradients, precision, what is computed again, smaller programs."""
