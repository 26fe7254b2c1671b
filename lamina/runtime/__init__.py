"""Runs a program: executor, cache, devices. Decides nothing."""
