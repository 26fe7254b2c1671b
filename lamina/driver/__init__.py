"""Drives the compiler for the caller: callables, one graph's compile, kernels, counters, replays."""
