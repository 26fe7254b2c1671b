"""Says what the compiler did: graphs, kernels, what fused and why not, bytes moved against the least possible."""
