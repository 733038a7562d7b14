"""Functions that look for elements: which are found and kept, how often each is, what stands in the middle."""
