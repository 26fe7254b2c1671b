"""The identity of a program: everything that what we make of a torch-level graph depends on, as text.

The graph with its constants and lines, the facts of its inputs (sizes, strides, kinds, who shares memory),
torch's modes and switches, the options. Two processes with the same text on the same machine make the same
program. A graph with something in it that has no certain name (a function that is not torch's own, a large
constant) has no text: its program is made anew in each process.
"""

from __future__ import annotations

import functools
import hashlib
import math
import operator
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch.fx.immutable_collections import immutable_list

from lamina.autograd.custom_operators import OWN_NAMESPACES
from lamina.autograd.trace import location_of
from lamina.capture.control_flow import map_batch
from lamina.eager.memory import storage_key
from lamina.options import Options

Tensor = torch.Tensor
TORCH_FOLDER = str(Path(torch.__file__).parent)
TORCH: Any = torch
HOMES: tuple[tuple[str, Any], ...] = (
    ("operator", operator), ("math", math), ("torch", torch), ("functional", torch.nn.functional),
    ("_nn", TORCH._C._nn), ("_fft", TORCH._C._fft), ("_linalg", TORCH._C._linalg),
    ("_special", TORCH._C._special), ("fft", torch.fft), ("linalg", torch.linalg),
    ("special", torch.special), ("Tensor", torch.Tensor),
)  # fmt: skip
"""Where functions that graphs call have their names."""
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType)
TORCHS_IMPLEMENTATIONS = frozenset({"Meta", "CUDA", "MPS", "FuncTorchBatched"})
"""Kinds of implementation that torch itself writes in Python for its operators."""
PLAIN_TENSORS = (Tensor, torch.nn.Parameter, torch.nn.Buffer)
PLAIN_VALUES = (
    bool, int, float, complex, str, type(None), type(Ellipsis),
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip
LARGEST_CONSTANT = 1 << 20
"""Bytes of a constant tensor that are still hashed and kept."""


class NamelessError(Exception):
    """Something that has no certain name."""


def program_text(
    graph: fx.GraphModule,
    inputs: Sequence[Any],
    kinds: Sequence[str],
    options: Options,
    libraries: frozenset[str],
    layouts: Mapping[int, str] | None = None,
) -> str | None:
    """All that the program for this graph on inputs like these depends on, but the machine; None where
    something in it has no certain name.

    layouts: sizes and strides of the inputs some sizes of which vary, names of numbers that vary.
    """
    try:
        parts = [_graph_text(graph), _inputs_text(inputs, kinds, layouts or {}), _torch_text()]
    except NamelessError:
        return None
    return "\n\n".join([*parts, ",".join(sorted(libraries)), options.cache_key()])


def _graph_text(graph: fx.GraphModule) -> str:
    numbers: dict[fx.Node, int] = {}
    lines = []
    for node in graph.graph.nodes:
        numbers[node] = len(numbers)
        if node.op == "placeholder":
            lines.append("placeholder")
            continue
        arguments = _value_text((node.args, node.kwargs), numbers)
        lines.append(f"{node.op} {_target_text(graph, node)} {arguments} {location_of(node)}")
    return "\n".join(lines)


def _target_text(graph: fx.GraphModule, node: fx.Node) -> str:
    if node.op == "call_function":
        return name_of(node.target)
    if node.op == "get_attr":
        held = operator.attrgetter(str(node.target))(graph)
        return f"({_graph_text(held)})" if isinstance(held, fx.GraphModule) else _constant_text(held)
    if node.op == "call_module":
        raise NamelessError(node.target)
    return str(node.target)


def name_of(function: Any) -> str:
    """The name of a function of torch's or Python's own; NamelessError for any other."""
    if function is map_batch:
        return "map_batch"
    if isinstance(function, torch._ops.OpOverload | torch._ops.OpOverloadPacket):
        if str(function).split(".")[0] not in OWN_NAMESPACES:
            raise NamelessError(function)
        return str(function)
    name = _find_name(function) if isinstance(function, FUNCTIONS) and _is_given(function) else None
    if name is None:
        raise NamelessError(function)
    return name


def _is_given(function: Any) -> bool:
    """Whether a function is torch's or native: what somebody put into torch's modules from outside is not."""
    code = getattr(function, "__code__", None)
    return code is None or code.co_filename.startswith(TORCH_FOLDER)


@functools.cache
def _find_name(function: Any) -> str | None:
    """Where a function has its name; most are called there as they call themselves."""
    own = getattr(function, "__name__", "")
    for home, holder in HOMES:
        if getattr(holder, own, None) == function:
            return f"{home}.{own}"
    for home, holder in HOMES:
        for name in dir(holder):
            value = getattr(holder, name, None)
            if isinstance(value, FUNCTIONS) and value == function:
                return f"{home}.{name}"
    return None


def _value_text(value: Any, numbers: dict[fx.Node, int]) -> str:
    """An argument as text that tells any two apart."""
    kind = type(value)
    if isinstance(value, fx.Node):
        return f"%{numbers[value]}"
    if kind in (tuple, list, torch.Size, immutable_list):
        inside = ", ".join(_value_text(each, numbers) for each in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_value_text(each, numbers)}' for key, each in value.items())}}}"
    if kind is slice:
        return f"slice{_value_text((value.start, value.stop, value.step), numbers)}"
    if kind in PLAIN_VALUES:
        return repr(value)
    if kind is type and value in PLAIN_VALUES:
        return f"<{value.__name__}>"
    raise NamelessError(value)


def _constant_text(value: Any) -> str:
    if type(value) not in PLAIN_TENSORS or value.device.type != "cpu" or value.layout is not torch.strided:
        raise NamelessError(value)
    if value.numel() * value.element_size() > LARGEST_CONSTANT:
        raise NamelessError(value)
    raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"{_tensor_text(value)} {hashlib.sha256(raw).hexdigest()}"


def _inputs_text(inputs: Sequence[Any], kinds: Sequence[str], layouts: Mapping[int, str]) -> str:
    lines = []
    owners: dict[int, int] = {}
    for position, value in enumerate(inputs):
        if isinstance(value, Tensor):
            owner = owners.setdefault(storage_key(value), position)
            text = _tensor_text(value, layouts.get(position))
            lines.append(f"{kinds[position] if kinds else ''} {text} memory {owner}")
        else:
            lines.append(layouts.get(position) or _value_text(value, {}))
    return "\n".join(lines)


def _tensor_text(value: Tensor, layout: str | None = None) -> str:
    if type(value) not in PLAIN_TENSORS or any(type(size) is not int for size in value.shape):
        raise NamelessError(value)
    facts = (
        type(value).__name__, value.dtype, value.layout, value.device, value.requires_grad,
        value.is_inference(), value.is_conj(), value.is_neg(), value.is_quantized,
    )  # fmt: skip
    if value.layout is not torch.strided:
        raise NamelessError(value)
    if layout is not None:
        return f"{facts} {layout}"
    memory = (tuple(value.shape), value.stride(), value.storage_offset(), value.untyped_storage().nbytes())
    return f"{facts} {memory}"


def _torch_text() -> str:
    """Torch's modes and switches that decide what an operation means or is made of."""
    if torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack():
        raise NamelessError("a mode of the user's")
    # Torch itself gives its operators shape rules in Python; another implementation is somebody's own.
    own = [name for name in torch.library._impls if name.startswith("aten/")]
    if any(name.rsplit("/", 1)[1] not in TORCHS_IMPLEMENTATIONS for name in own):
        raise NamelessError("an operator of torch's was replaced")
    backends = TORCH.backends
    facts = (
        torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(), TORCH.utils.deterministic.fill_uninitialized_memory,
        torch.get_float32_matmul_precision(), torch.get_num_threads(), backends.mkldnn.enabled,
        backends.cuda.flash_sdp_enabled(), backends.cuda.mem_efficient_sdp_enabled(),
        backends.cuda.math_sdp_enabled(), backends.mha.get_fastpath_enabled(),
    )  # fmt: skip
    return repr(facts)
