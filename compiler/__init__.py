"""From a traced function to a program that runs: `jit` is the way there; folders hold its parts."""
