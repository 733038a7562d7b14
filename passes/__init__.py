"""Passes: programs that rewrite IR, in rooms by what they rewrite.

`framework` says what a pass is. `graph` is for ops of the `blu` dialect, `loops` for linalg and which loops are one
kernel, `host` for the program that calls kernels. `kernels`, `cpu` and `gpu` write the code of kernels.
"""
