"""Program level: from a graph of kernels and library calls to what the runtime does, in order."""
