"""Functions that look for elements: where they are, which are kept, how often each is, what stands in the middle."""
