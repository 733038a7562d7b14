"""What the scripts of bench/ do without a GPU."""
