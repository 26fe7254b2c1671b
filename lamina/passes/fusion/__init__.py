"""Fusion: tensor-level operations of @main become `lamina.kernel` regions, one generated kernel each."""
