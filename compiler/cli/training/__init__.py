"""What `blu train` is made of: its flags, what they ask for, and what it shows."""
