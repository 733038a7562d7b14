"""Files: checkpoints, models of others, tokens."""
