"""Says what the compiler did: graphs, kernels, what fused and why not, bytes moved and the least possible."""
