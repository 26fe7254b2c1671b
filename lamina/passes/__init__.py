"""Passes: each takes the module from one level to the same or the next, and decides; nothing runs here."""
