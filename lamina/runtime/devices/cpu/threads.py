"""How many threads kernels use: as many as torch's own operators do."""

from __future__ import annotations

import torch

from lamina.runtime.devices.cpu.library import has_threads


def thread_count(wanted: int = 0) -> int:
    """`wanted` threads, or torch's number when it is 0; one where there is no libgomp to run them."""
    if not has_threads():
        return 1
    return wanted or torch.get_num_threads()
