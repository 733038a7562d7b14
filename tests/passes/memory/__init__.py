"""Where what a program works on lies in memory, and how much it is."""
