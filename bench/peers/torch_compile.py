"""torch.compile, as it comes, and with all that it can do for inference on a CPU."""

from __future__ import annotations

import torch

from bench.peers.peer import Call, Peer, call_with
from bench.workloads import Example


def prepare_default(example: Example) -> Call:
    """Default mode."""
    return call_with(torch.compile(example.function), example)


def prepare_tuned(example: Example) -> Call:
    """Weights frozen into the graph, kernels chosen by measurement."""
    import torch._inductor.config as inductor

    inductor.freezing = True
    return call_with(torch.compile(example.function, mode="max-autotune"), example)


DEFAULT = Peer("torch.compile", "torch", prepare_default, has_disk_cache=True)
TUNED = Peer(
    "torch.compile-max", "torch", prepare_tuned, settings="freezing, mode=max-autotune", has_disk_cache=True
)
