"""Matrix products on processors."""
