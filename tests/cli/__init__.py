"""The commands, and the driver under them."""
