"""The symbolic bytecode machine: frames, the instruction loop, exceptions and calls; imports no torch."""
