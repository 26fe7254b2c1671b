"""Each installed peer prepares a small workload and is right (`make test-peers` installs them all)."""

from __future__ import annotations

import importlib.util
import shutil

import pytest
import torch

from bench.accuracy import largest_error, reference_of
from bench.peers import PEERS
from bench.workloads import get

MODULES = {"onnxruntime": "onnxruntime", "openvino": "openvino"}


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["tiny-mlp", "cross-entropy"])
@pytest.mark.parametrize("name", [name for name in PEERS if name != "torch.compile-max"])
def test_a_peer_is_right(name: str, workload: str) -> None:
    module = MODULES.get(name)
    if module and importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")
    if name == "torch.compile" and shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    example = get(workload).build()
    with torch.no_grad():
        call = PEERS[name].prepare(example)
        assert largest_error(call(), reference_of(example)) < 1e-5
