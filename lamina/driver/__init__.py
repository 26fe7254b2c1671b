"""Drives the compiler for the caller: compiled callables, one graph's compile, kernels kept, counters, replays."""
