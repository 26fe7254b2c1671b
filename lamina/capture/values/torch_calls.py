"""Which calls become graph nodes, and models of torch functions about modes, compilation and modules."""

from __future__ import annotations

import copy
import enum
import functools
import importlib.metadata
import importlib.util
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import torch

from lamina.capture.graph_builder import NUMPY_NUMBERS
from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.number_arguments import WIDE
from lamina.capture.sources import Fixed
from lamina.capture.values.attributes import IMMUTABLE_TYPE
from lamina.capture.values.checks import CHECK_MODELS
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.custom_functions import model_apply
from lamina.capture.values.foreach import FOREACH_MODELS, PREFIX, record_foreach
from lamina.capture.values.higher_order import HIGHER_ORDER_MODELS
from lamina.capture.values.legacy_constructors import LEGACY_MODELS
from lamina.capture.values.logs import LOG_MODELS
from lamina.capture.values.modes import MODE_MODELS
from lamina.capture.values.optimizers import OPTIMIZER_MODELS
from lamina.capture.values.profiling import PROFILING_MODELS
from lamina.capture.values.sizes import NumberValue, is_unknown, kind_of
from lamina.capture.values.subclasses import INTERCEPTION_MODELS, intercept
from lamina.capture.values.tensor import READ_VALUES, REFUSED_METHODS, TensorValue
from lamina.capture.values.warning_filters import WARNING_MODELS

LEAF_PYTHON_MODULES = frozenset(
    {"torch.nn.functional", "torch.functional", "torch._tensor", "torch.special", "torch.linalg", "torch.fft"}
)
DECIDING = frozenset({"gaussian_nll_loss"})
"""Functions of these that branch on values of tensors."""
OP_OWNERS = (
    "torch._C._nn",
    "torch._C._linalg",
    "torch._C._fft",
    "torch._C._special",
    "torch._C._sparse",
    "torch._C._nested",
)


def is_torch_builtin(callee: Any) -> bool:
    """Whether a native callable is a torch operation: torch.add, torch._C._nn.gelu, ..."""
    if type(callee) is not types.BuiltinFunctionType:
        return False
    owner = callee.__self__
    if owner is None:
        return hasattr(torch._C._VariableFunctions, callee.__name__) and callee.__module__ in (None, "torch")
    return isinstance(owner, types.ModuleType) and owner.__name__ in OP_OWNERS


def is_tensor_method(callee: Any) -> bool:
    """Whether a descriptor is a method of torch.Tensor, as in `torch.Tensor.add(x, y)`."""
    return isinstance(callee, (types.MethodDescriptorType, types.WrapperDescriptorType)) and issubclass(
        callee.__objclass__, torch._C.TensorBase
    )


@functools.cache
def has_native_objects(operator: Any) -> bool:
    """Whether an operator takes or gives objects of native classes: profilers' handles, packed weights."""
    packet = isinstance(operator, torch._ops.OpOverloadPacket)
    overloads = [getattr(operator, name) for name in operator.overloads()] if packet else [operator]
    schemas = [each._schema for each in overloads]
    return any(
        "torch.classes" in str(place.type) for each in schemas for place in (*each.arguments, *each.returns)
    )


def is_leaf_function(function: types.FunctionType, arguments: Arguments, keywords: Keywords) -> bool:
    """Whether a Python function of torch's is recorded whole instead of being entered."""
    if function.__module__ not in LEAF_PYTHON_MODULES or function.__name__ in DECIDING:
        return False
    if "<locals>" in function.__qualname__:
        return False
    return not any(is_entered_with(value) for value in (*arguments, *keywords.values()))


def is_entered_with(value: Value) -> bool:
    """Whether a function that gets `value` must be entered: functions, modules, records: no graph values."""
    kind = type(value)
    if isinstance(value, (types.FunctionType, types.MethodType, torch.nn.Module)):
        return True
    is_plain = bool(kind.__flags__ & IMMUTABLE_TYPE) or "__machine_native__" in kind.__dict__
    return not is_plain and not isinstance(value, (type, tuple, list, dict, torch.Tensor, enum.Enum))


def record_leaf(world: Any, callee: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """Record a call of a torch operation."""
    intercepted = intercept(world, callee, arguments, keywords)
    if intercepted is not MISSING:
        return intercepted
    name = callee.__name__
    if is_tensor_method(callee) or getattr(callee, "__module__", None) == "torch._tensor":
        if not arguments or type(arguments[0]) is not TensorValue:
            stop("tensor-method", f"Tensor.{name} is called on something that is not a traced tensor")
        if name in REFUSED_METHODS:
            stop("tensor-method", f"Tensor.{name} cannot be captured")
        if name in READ_VALUES:
            return arguments[0].read_values(name, arguments[1:])
        return world.builder.call_method(name, arguments, keywords)
    if name.startswith(PREFIX):
        result = record_foreach(world, name, arguments, keywords)
        if result is not MISSING:
            return result
    if callee is torch._native_multi_head_attention:
        return record_attention(world, callee, arguments, keywords)
    return world.builder.call(callee, arguments, keywords)


def record_attention(world: Any, callee: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """The fused attention gives no weights where they are not asked for; fakes give an empty tensor."""
    result = world.builder.call(callee, arguments, keywords)
    needs_weights = keywords.get("need_weights", arguments[10] if len(arguments) > 10 else True)
    return result if needs_weights else (result[0], None)


PATTERN_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(re.compile, re.match, re.fullmatch, re.search, re.sub, re.subn, re.split, re.findall, re.finditer),
    re.escape,
)
PATTERN_ARGUMENTS = (str, bytes, int, re.Pattern)
NUMBER_FUNCTIONS = frozenset(
    {"prod", "sqrt", "ceil", "floor", "log", "log2", "log10", "exp", "power", "sin", "cos", "tanh", "round"}
    | {"maximum", "minimum", "abs", "absolute", "sum", "mean", "max", "min", "gcd", "lcm", "floor_divide"}
)
RUN_PLAINLY: tuple[Callable[..., Any], ...] = (
    inspect.signature,
    inspect.getfullargspec,
    inspect.isfunction,
    inspect.ismethod,
    inspect.isclass,
    inspect.unwrap,
    typing.get_origin,
    typing.get_args,
    typing.get_type_hints,
    typing._SpecialForm.__getitem__,
    importlib.util.find_spec,
    importlib.metadata.version,
)
"""Library functions that look only at code, types and what is installed: run as they are."""


def answer(value: Any) -> Model:
    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        return value

    return model


def model_is_compiling(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """True, but for a program that fails on it, and for torch's own encoder: it would give other values at
    padded places than eager does."""
    world.has_asked_compiling = True
    in_encoder = world.machine.frame.global_names.get("__name__") == "torch.nn.modules.transformer"
    return world.says_compiling and not in_encoder


def model_id(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`id` of what is the same in every call, or in the library module `copy`, which only asks whether
    two objects are one."""
    state = world.importer.states.get(id(arguments[0]))
    if state is not None and type(state.source) is Fixed:
        return id(arguments[0])
    if world.machine.frame.global_names is not vars(copy):
        stop("torch-function", "id() cannot be captured", "call it outside the compiled function")
    return world.identify(arguments[0])


def model_tensor(function: Any) -> Model:
    """`torch.tensor` and `torch.as_tensor` of numbers that vary: filled with them when the graph runs."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        kind = kind_of_numbers(arguments[0]) if len(arguments) == 1 else None
        dtype = keywords.get("dtype")
        allowed = (None, torch.int64) if kind is int else (None, *WIDE)
        if kind is None or dtype not in allowed or keywords.keys() - {"dtype", "device"}:
            return record_leaf(world, function, arguments, keywords)
        natural = torch.int64 if kind is int else torch.get_default_dtype()
        return fill_numbers(world, arguments[0], {**keywords, "dtype": dtype or natural})

    return model


def kind_of_numbers(value: Value) -> type | None:
    """The class of a number that varies, or of all in lists of lists with such; None for anything else."""
    numbers = list(flatten(value))
    kinds = {kind_of(each) for each in numbers}
    is_open = NumberValue in map(type, numbers) and not any(map(is_unknown, numbers))
    return kinds.pop() if is_open and kinds in ({int}, {float}) else None


def flatten(value: Value) -> Iterator[Value]:
    if type(value) is list or type(value) is tuple:
        for item in value:
            yield from flatten(item)
    else:
        yield value


def fill_numbers(world: Any, value: Value, options: dict[str, Any]) -> Value:
    """The tensor of a number, or of lists of numbers."""
    if type(value) is list or type(value) is tuple:
        return world.builder.call(torch.stack, ([fill_numbers(world, item, options) for item in value],), {})
    return world.builder.call(torch.full, ((), value), options)


def model_is_tensor(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return type(arguments[0]) is TensorValue


def model_autocast(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`torch.autocast(...)` only reads defaults of its device; they are guarded."""
    device = arguments[0] if arguments else keywords["device_type"]
    world.guard_query(f"autocast dtype of {device}", functools.partial(torch.get_autocast_dtype, device))
    world.guard_query("autocast cache", torch.is_autocast_cache_enabled)
    return torch.autocast(*arguments, **keywords)


def model_module_call(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`module(...)`: without hooks it is `module.forward(...)`."""
    module = arguments[0]
    if world.has_hooks(module):
        return world.call_python(torch.nn.Module._call_impl, arguments, keywords)
    return world.call(world.load_attribute(module, "forward"), arguments[1:], keywords)


def model_module_getattr(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`Module.__getattr__`: parameters, buffers, submodules."""
    module, name = arguments
    for table in ("_parameters", "_buffers", "_modules"):
        entries = world.read_instance_raw(module, table)
        if entries is not MISSING and entries is not None and name in entries:
            return world.read_entry(module, entries, table, name)
    raise AttributeError(f"{type(module).__name__!r} object has no attribute {name!r}", name=name, obj=module)


def model_print(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """What is printed appears when the work before it is done and the work behind it is not."""
    stop("print", "something is printed", "print after the compiled call, or log it with the logging module")


def forbid_torch(name: str) -> Model:
    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        stop("torch-function", f"{name} cannot be captured", "call it outside the compiled function")

    return model


def model_pattern_function(function: Callable[..., Any]) -> Model:
    """A function of `re`: on texts it only computes (its cache of compiled patterns is nobody's business)."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if all(isinstance(value, PATTERN_ARGUMENTS) for value in (*arguments, *keywords.values())):
            return function(*arguments, **keywords)
        return world.call_python(function, arguments, keywords)

    return model


def is_number_tree(value: Value) -> bool:
    """Whether a value is a number, or a tuple or list of such."""
    kind = type(value)
    if kind is tuple or kind is list or kind is torch.Size:
        return all(is_number_tree(item) for item in value)
    return kind in (int, float, bool) or (kind.__module__ == "numpy" and kind.__name__ in NUMPY_NUMBERS)


def model_number_function(callee: Value) -> Model | None:
    """NumPy's functions of numbers, as in `np.prod(shape)`: run as they are; they give numbers."""
    if getattr(callee, "__name__", "") not in NUMBER_FUNCTIONS or not is_of_numpy(callee):
        return None

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        values = (*arguments, *keywords.values())
        result = callee(*arguments, **keywords) if all(map(is_number_tree, values)) else None
        if not is_number_tree(result):
            stop("numpy", f"numpy.{callee.__name__} works on more than numbers", "use torch's function")
        return result

    return model


def is_of_numpy(callee: Value) -> bool:
    return type(callee).__module__ == "numpy" or getattr(callee, "__module__", None) == "numpy"


def run_plainly(function: Callable[..., Any]) -> Model:
    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        return function(*arguments, **keywords)

    return model


DYNAMO_ONLY = {
    "torch._dynamo.mutation_guard": ("GenerationTracker.tag",),
    "torch._dynamo.decorators": ("DynamoConfigPatchProxy.__enter__", "DynamoConfigPatchProxy.__exit__"),
}
"""What is for Dynamo alone, by module, since to import it would load torch's compiler: a tag that it has each
new module of the process carry, once it was used; settings for a call, as exported programs make them."""


def model_of_dynamo(callee: Value) -> Model | None:
    """Nothing, for what only Dynamo looks at."""
    names = DYNAMO_ONLY.get(getattr(callee, "__module__", None) or "", ())
    return answer(None) if getattr(callee, "__qualname__", "") in names else None


def collect_models() -> dict[Any, Model]:
    """Models of torch and library functions; what this torch version lacks is left out."""
    models: dict[Any, Model] = {
        torch.compiler.is_compiling: model_is_compiling,
        torch.compiler.is_dynamo_compiling: model_is_compiling,
        torch.compiler.is_exporting: answer(False),
        torch.jit.is_tracing: answer(False),  # type: ignore[attr-defined]
        torch._jit_internal.is_scripting: answer(False),
        torch.is_tensor: model_is_tensor,
        **{function: model_tensor(function) for function in (torch.tensor, torch.as_tensor)},
        torch.autocast: model_autocast,
        torch.nn.Module.__call__: model_module_call,
        torch.nn.Module._call_impl: model_module_call,
        torch.nn.Module.__getattr__: model_module_getattr,
        torch.autograd.Function.apply.__func__: model_apply,  # type: ignore[attr-defined]
        **LEGACY_MODELS,
        **HIGHER_ORDER_MODELS,
        **CHECK_MODELS,
        **LOG_MODELS,
        **MODE_MODELS,
        **PROFILING_MODELS,
        **OPTIMIZER_MODELS,
        **FOREACH_MODELS,
        **INTERCEPTION_MODELS,
        **WARNING_MODELS,
        print: model_print,
        torch._C._log_api_usage_once: answer(None),
        **{function: run_plainly(function) for function in RUN_PLAINLY},
        **{function: model_pattern_function(function) for function in PATTERN_FUNCTIONS},
        id: model_id,
        torch.manual_seed: forbid_torch("torch.manual_seed"),
    }
    return models


TORCH_MODELS: dict[Any, Model] = collect_models()
