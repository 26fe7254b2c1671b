"""Passes on the tensor level."""
