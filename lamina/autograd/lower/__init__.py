"""Lowerings of ATen ops to tensor-level IR, one table a family."""
