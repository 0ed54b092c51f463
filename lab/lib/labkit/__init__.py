"""The common parts of the lab's Python commands."""
