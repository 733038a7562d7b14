"""What commands that run as several processes have in common: their flags, and what the doctor says about them."""
