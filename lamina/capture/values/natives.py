"""Which native code may run on the program's values: what is known to be pure. All else stops tracing."""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import re
import types
from typing import Any

import torch

from lamina.capture.machine.signals import stop
from lamina.capture.values.attributes import find_in_type, is_native_type, is_python_method
from lamina.capture.values.iteration import CONTAINERS, walk_entries

PURE_MODULES = frozenset(
    {
        "math",
        "cmath",
        "_operator",
        "operator",
        "itertools",
        "_functools",
        "functools",
        "_collections",
        "collections",
        "_bisect",
        "_heapq",
        "_struct",
        "_string",
        "_collections_abc",
        "_sre",
        "unicodedata",
        "_abc",
        "_typing",
        "_statistics",
        "binascii",
        "zlib",
        "_json",
        "_copy",
        "_weakref",
    }
)

IMPURE_BUILTINS = frozenset(
    {"print", "input", "open", "exec", "eval", "compile", "breakpoint", "exit", "quit", "help"}
)

PURE_CLASSES: frozenset[type] = frozenset(
    {
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        bytearray,
        list,
        tuple,
        dict,
        set,
        frozenset,
        range,
        slice,
        enumerate,
        zip,
        map,
        filter,
        reversed,
        object,
        super,
        property,
        staticmethod,
        classmethod,
        type,
        memoryview,
        collections.OrderedDict,
        collections.defaultdict,
        collections.deque,
        functools.partial,
        types.MethodType,
        types.SimpleNamespace,
        types.MappingProxyType,
        types.GenericAlias,
        types.CellType,
        itertools.chain,
        itertools.count,
        itertools.cycle,
        itertools.repeat,
        itertools.islice,
        itertools.product,
        itertools.permutations,
        itertools.combinations,
        itertools.accumulate,
        itertools.groupby,
        itertools.zip_longest,
        itertools.starmap,
        itertools.takewhile,
        itertools.dropwhile,
        itertools.filterfalse,
        itertools.compress,
        itertools.pairwise,
        torch.Size,
        torch.device,
        torch.finfo,
        torch.iinfo,
    }
)

PURE_OWNERS: tuple[type, ...] = (
    *(kind for kind in PURE_CLASSES if kind not in (object, type, super)),
    type(None),
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    types.MappingProxyType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    torch.dtype,
    torch.Size,
    re.Pattern,
    re.Match,
    BaseException,
)

PURE_SLOTS = frozenset(
    {
        "__init__",
        "__new__",
        "__init_subclass__",
        "__subclasshook__",
        "__eq__",
        "__ne__",
        "__hash__",
        "__reduce_ex__",
        "__format__",
        "__dir__",
        "__sizeof__",
        "__instancecheck__",
        "__subclasscheck__",
        "mro",
        "__or__",
        "__ror__",
        "__subclasses__",
        "__call__",
        "__class_getitem__",
        "__set_name__",
        "__prepare__",
        "__repr__",
        "__str__",
    }
)
"""Slots of object and type that look at no state a guard would be needed for."""

TORCH_QUERIES = frozenset(
    {
        "is_grad_enabled",
        "is_inference_mode_enabled",
        "get_default_dtype",
        "_get_default_device",
        "is_autocast_enabled",
        "is_autocast_cpu_enabled",
        "get_autocast_dtype",
        "get_autocast_gpu_dtype",
        "get_autocast_cpu_dtype",
        "is_autocast_cache_enabled",
        "promote_types",
        "result_type",
        "can_cast",
        "_get_cudnn_enabled",
        "_get_tracing_state",
        "_is_torch_function_enabled",
        "_is_torch_function_mode_enabled",
        "_has_torch_function",
        "_get_mkldnn_enabled",
        "_has_torch_function_unary",
        "_has_torch_function_variadic",
        "_get_flash_sdp_enabled",
        "_get_math_sdp_enabled",
        "_get_mem_efficient_sdp_enabled",
        "_get_cudnn_sdp_enabled",
        "are_deterministic_algorithms_enabled",
        "_get_deterministic_algorithms",
        "_len_torch_function_stack",
        "_len_torch_dispatch_stack",
        "_log_api_usage_once",
        "_are_functorch_transforms_active",
        "is_autocast_available",
        "_get_privateuse1_backend_name",
        "_jit_internal",
        "_cuda_getDeviceCount",
        "_is_any_autocast_enabled",
        "is_any_autocast_enabled",
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
        "_get_fp32_precision_getter",
        "_get_linalg_preferred_backend",
        "get_num_threads",
        "_get_cpu_capability",
        "_parse_to",
        "parse_to",
    }
)
"""Functions of torch._C that only ask about modes, which guards cover, about the arguments or the build."""
UNCHANGING = frozenset(
    {
        "promote_types",
        "result_type",
        "can_cast",
        "_has_torch_function",
        "_has_torch_function_unary",
        "_has_torch_function_variadic",
        "has_torch_function",
        "has_torch_function_unary",
        "has_torch_function_variadic",
        "_log_api_usage_once",
        "is_autocast_available",
        "_get_privateuse1_backend_name",
        "_jit_internal",
        "_cuda_getDeviceCount",
        "_get_cpu_capability",
        "_parse_to",
        "parse_to",
        "_get_default_device",
        "_get_tracing_state",
        "_is_torch_function_enabled",
        "_is_torch_function_mode_enabled",
        "_len_torch_function_stack",
        "_len_torch_dispatch_stack",
    }
)
"""Of these: the answer follows from the arguments or the build, or the guards of each capture are on it."""


def is_query(callee: Any) -> bool:
    """Whether `callee` tells a state of torch's that can be switched between calls."""
    module = getattr(callee, "__module__", None) or getattr(
        getattr(callee, "__self__", None), "__name__", None
    )
    return (
        isinstance(module, str)
        and module.startswith("torch")
        and callee.__name__ in TORCH_QUERIES - UNCHANGING
    )


def is_pure_native(callee: Any) -> bool:
    """Whether running `callee` natively can neither read unguarded state nor change anything outside."""
    if isinstance(callee, type):
        return is_pure_class(callee)
    owner = getattr(callee, "__self__", None)
    name = getattr(callee, "__name__", "")
    if owner is None or isinstance(owner, types.ModuleType) or is_binding_record(owner):
        holder = getattr(callee, "__objclass__", None)
        if holder is not None:
            return is_pure_holder(holder, name)
        module = getattr(callee, "__module__", None) or getattr(owner, "__name__", None)
        if module == "builtins":
            return name not in IMPURE_BUILTINS
        if module is not None and module.startswith("torch"):
            return name in TORCH_QUERIES
        return module in PURE_MODULES
    if isinstance(owner, type):
        return is_pure_class(owner) or name in PURE_SLOTS
    holder = getattr(callee, "__objclass__", None)
    if holder is not None:
        return is_pure_holder(holder, name)
    return isinstance(owner, PURE_OWNERS) or type(owner).__module__ in PURE_MODULES


def is_binding_record(owner: Any) -> bool:
    """Whether the `__self__` of a native function is only pybind11's record of it."""
    name = type(owner).__name__
    return name == "PyCapsule" or name.startswith("pybind11")


def is_pure_class(kind: type) -> bool:
    if kind in PURE_CLASSES or issubclass(kind, (BaseException, enum.Enum)):
        return True
    if kind.__module__ in PURE_MODULES:
        return True
    # pybind11's classes look like Python's but construct in C++: guards of thread state among them.
    if type(kind).__name__ == "pybind11_type":
        return False
    # Classes without Python-level construction: their C-level base decides.
    base = next((entry for entry in kind.__mro__ if not entry.__flags__ & (1 << 9)), object)
    return base in PURE_CLASSES


def is_pure_holder(holder: type, name: str) -> bool:
    if holder in (object, type):
        return name in PURE_SLOTS
    if issubclass(holder, PURE_OWNERS) or holder.__module__ in PURE_MODULES:
        return True
    return holder in (types.FunctionType, types.MethodType, types.ModuleType, types.BuiltinFunctionType)


def check_plain(values: tuple[Any, ...], what: str, depth: int = 0) -> None:
    """Stop where native code would call Python-level comparison or printing of an element."""
    for value in values:
        if isinstance(value, CONTAINERS):
            if depth > 20:
                stop("deep", f"{what} looks into a very deep container")
            check_plain(tuple(walk_entries(value)), what, depth + 1)
        elif runs_python_when_compared(type(value)):
            stop("native-callback", f"{what} would call methods of {type(value).__qualname__} from C code")


def runs_python_when_compared(kind: type) -> bool:
    if is_native_type(kind) or issubclass(kind, enum.Enum):
        return False
    return any(
        is_python_method(find_in_type(kind, name)) for name in ("__eq__", "__repr__", "__str__", "__lt__")
    )


PRINTERS = frozenset({"repr", "str", "ascii", "format", "hash"})
DEEP_READERS = frozenset(
    {"index", "count", "remove", "repr", "str", "ascii", "format", "__eq__", "__repr__", "join", "hash"}
)


def check_readers(callee: Any, arguments: tuple[Any, ...]) -> None:
    """Stop where `callee` would compare or print elements through Python-level methods."""
    name = getattr(callee, "__name__", "")
    if name not in DEEP_READERS:
        return
    owner = getattr(callee, "__self__", None)
    if isinstance(owner, CONTAINERS):
        check_plain((owner, *arguments), name)
    elif name in PRINTERS:
        check_plain(arguments, name)


def describe_native(callee: Any) -> str:
    """How a message names a native callable."""
    module = getattr(callee, "__module__", None) or getattr(
        type(getattr(callee, "__self__", None)), "__name__", ""
    )
    name = (
        getattr(callee, "__qualname__", None)
        or getattr(callee, "__name__", None)
        or type(callee).__qualname__
    )
    return f"{module}.{name}" if module and module != "NoneType" else str(name)
