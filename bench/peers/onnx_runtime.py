"""ONNX Runtime on a model exported by torch.onnx."""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

from bench.peers.peer import Call, Peer, as_module
from bench.workloads import Example


def prepare(example: Example) -> Call:
    """Export, load with every graph optimisation, bind the memory of inputs and outputs.

    A call writes into the arrays that the one before it returned: ONNX Runtime then copies nothing.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = export(example, Path(folder) / "model.onnx")
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return bind(session, example)


def bind(session: Any, example: Example) -> Call:
    """A call of the session on the example's own memory."""
    names = [entry.name for entry in session.get_inputs()]
    if len(names) != len(example.args):
        raise RuntimeError(f"the exported model has {len(names)} inputs, the function {len(example.args)}")
    feeds = {name: value.numpy() for name, value in zip(names, example.args, strict=True)}
    # The first run says how large the results are.
    results = session.run(None, feeds)
    binding = session.io_binding()
    for name, value in feeds.items():
        binding.bind_cpu_input(name, value)
    for entry, value in zip(session.get_outputs(), results, strict=True):
        binding.bind_output(entry.name, "cpu", 0, value.dtype, value.shape, value.ctypes.data)

    def call() -> Any:
        session.run_with_iobinding(binding)
        return results

    return call


def export(example: Example, path: Path) -> Path:
    """The model as a file, weights beside it: by torch.export, or where that fails from a trace, which takes
    tensors that a module keeps without registering them.
    """
    module = as_module(example)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(module, example.args, str(path), dynamo=True, verbose=False)
        except ImportError:
            raise
        except Exception:
            torch.onnx.export(module, example.args, str(path), dynamo=False)
    return path


PEER = Peer("onnxruntime", "onnxruntime", prepare, settings="all graph optimisations, bound memory")
