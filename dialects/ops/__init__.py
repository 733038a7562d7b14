"""The ops, a file for each family. To add one, see CONTRIBUTING.md."""
