"""What tests are made of, and tests of that."""
