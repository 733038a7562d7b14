"""The `blu` and `plan` dialects: `core` is how ops are declared, `ops` are the ops, `tensor` is what users call."""
