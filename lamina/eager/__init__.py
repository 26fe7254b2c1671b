"""What torch's own CPU kernels do where its shape rules say less or something else."""
