"""An interpreter of PTX."""
