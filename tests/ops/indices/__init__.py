"""Where elements are written, and how indices are looked at."""
