"""From an outlined kernel of tensor operations to vectorised loops."""
