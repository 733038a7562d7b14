"""Programs and cases that several tests compile."""
