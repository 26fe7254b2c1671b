"""What programs are: SSA operations, types, text, verifier, rewriting, interpreter."""
