"""Instructions of GPUs under the names that the ISA gives them."""
