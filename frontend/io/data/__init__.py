"""The data of training runs: files of tokens, and windows of them in batches."""
