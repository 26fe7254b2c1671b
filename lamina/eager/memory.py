"""Which memory a tensor has."""

from __future__ import annotations

import torch


def storage_key(tensor: torch.Tensor) -> int:
    """Two tensors share memory exactly if their keys are equal (while both are alive)."""
    key: int = tensor.untyped_storage()._cdata
    return key
