"""What tests of ranks start: small scripts that each rank runs, and the starting itself."""
