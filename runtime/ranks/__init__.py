"""Several processes that run one program together: how they find each other, exchange arrays, and watch each other."""
