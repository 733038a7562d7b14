"""Several ranks, started through MPI: how they find each other, exchange arrays, and watch each other."""
