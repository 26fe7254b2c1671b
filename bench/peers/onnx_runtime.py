"""ONNX Runtime on a model exported by torch.onnx."""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path

import torch

from bench.peers.peer import Call, Peer, as_module
from bench.workloads import Example


def prepare(example: Example) -> Call:
    """Export, load with every graph optimisation; inputs are shared with torch, outputs are numpy arrays."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = export(example, Path(folder) / "model.onnx")
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]
    if len(names) != len(example.args):
        raise RuntimeError(f"the exported model has {len(names)} inputs, the function {len(example.args)}")
    feeds = {name: value.numpy() for name, value in zip(names, example.args, strict=True)}
    return lambda: session.run(None, feeds)


def export(example: Example, path: Path) -> Path:
    """The model as a file, weights beside it."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(as_module(example), example.args, str(path), dynamo=True, verbose=False)
    return path


PEER = Peer("onnxruntime", "onnxruntime", prepare, settings="all graph optimisations")
