"""OpenVINO on a model that it converts from PyTorch itself."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from bench.peers.peer import Call, Peer, as_module
from bench.workloads import Example


def prepare(example: Example) -> Call:
    """Latency mode, in float32: on processors with bf16 units its default would compute in bf16.

    A call writes into the arrays that the one before it returned: OpenVINO then copies nothing.
    """
    import openvino

    model = convert(example)
    settings = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "f32",
    }
    # Static shapes, as the other peers see them, unlock more of its optimisations.
    if len(model.inputs) != len(example.args):
        raise RuntimeError(f"the converted model has {len(model.inputs)} inputs, not {len(example.args)}")
    model.reshape({index: list(value.shape) for index, value in enumerate(example.args)})
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    for index, value in enumerate(example.args):
        request.set_input_tensor(index, openvino.Tensor(value.numpy(), shared_memory=True))
    return lambda: list(request.infer(share_outputs=True).values())


def convert(example: Example) -> Any:
    """Its model of the function: from a trace, or where that fails from torch.export, which decomposes more
    ops.
    """
    import openvino

    module = as_module(example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return openvino.convert_model(module, example_input=example.args)
        except Exception:
            return openvino.convert_model(torch.export.export(module, example.args))


PEER = Peer("openvino", "openvino", prepare, settings="latency hint, f32, shared memory")
