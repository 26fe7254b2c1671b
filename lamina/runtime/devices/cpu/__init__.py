"""Kernels on this processor: loaded code, threads, memory."""
