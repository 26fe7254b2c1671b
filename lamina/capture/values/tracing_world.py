"""The world of a traced program: reads are guarded, writes recorded, tensors go into the graph."""

from __future__ import annotations

import abc
import functools
import logging
import types
import weakref
from typing import Any

import torch
from torch.utils._device import DeviceContext

from lamina.capture import class_guards
from lamina.capture.guards import MODES
from lamina.capture.machine.call_sites import call_later
from lamina.capture.machine.origins import call_natively, is_failure
from lamina.capture.machine.signals import TracingFailed, TracingStopped, Value, stop
from lamina.capture.marks import find_original, is_disabled
from lamina.capture.sources import Called, Field, Fixed
from lamina.capture.values import calls, hashing, natives, reducing, scripted, sizes, subclasses, torch_calls
from lamina.capture.values.attribute_view import AttributeView
from lamina.capture.values.attributes import find_in_type, is_native_type
from lamina.capture.values.iteration import CONTAINERS
from lamina.capture.values.namespaces import Namespace
from lamina.capture.values.opaque import OpaqueValue
from lamina.capture.values.open_containers import OpenContainer, OpenList
from lamina.capture.values.operators import COMPARE
from lamina.capture.values.outside import IMMUTABLE, LargeDict
from lamina.capture.values.sizes import NumberValue, SizeTuple
from lamina.capture.values.subclasses import SubclassValue
from lamina.capture.values.tensor import TensorValue
from lamina.capture.values.traced_attributes import TracedAttributes
from lamina.capture.values.trust import is_trusted_module
from lamina.capture.values.warning_filters import OpenRegion
from lamina.errors import Unsupported

COMPARING = frozenset(native for native, *_ in COMPARE.values())
OPERATOR_KINDS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
DICT_FACES = (LargeDict, AttributeView, Namespace)
HASHED: tuple[type, ...] = (
    dict,
    set,
    frozenset,
    type({}.keys()),
    type({}.items()),
    types.MappingProxyType,
    LargeDict,
)
"""What is looked up in by hash."""
MOST_IDENTIFIED = 64
HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
SHARED_HOOK_TABLES = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)
"""In torch.nn.modules.module, for all modules."""


class TracingWorld(TracedAttributes):
    """One trace. Holds the graph, the guards, what came from outside and what was changed there."""

    interception_off = 0
    """How many regions the program is in where classes of tensors do not intercept torch functions."""

    says_compiling = True
    """What `torch.compiler.is_compiling()` gives."""

    has_asked_compiling = False
    """Whether the program has asked that."""

    warning_region: OpenRegion | None = None
    """The innermost region in which the program filters warnings."""

    ignored: TracingStopped | None = None
    """Why a generator that went unfinished could not be closed."""

    def check_asynchronous(self, function: types.FunctionType) -> None:
        stop("async", f"{function.__qualname__} is a coroutine or an asynchronous generator")

    # operators

    def apply_native(self, native: Any, *operands: Value) -> Value:
        if native in COMPARING and any(isinstance(operand, CONTAINERS) for operand in operands):
            natives.check_plain(operands, native.__name__)
        if type(operands[0]) is TensorValue and SubclassValue in map(type, operands):
            return subclasses.apply_to_plain(self, native, *operands)
        if native is len and type(operands[0]) is TensorValue and operands[0].fake.dim():
            return self.builder.read_size(operands[0], 0)
        if native is len and type(operands[0]) is OpenList:
            return operands[0].read_length()
        return super().apply_native(native, *operands)

    def check_key(self, container: Value, key: Value) -> None:
        if isinstance(container, HASHED):
            hashing.check_key(key, "a look-up")

    def check_made(self, kind: type) -> None:
        if hashing.is_users_method(find_in_type(kind, "__del__")):
            stop("native-callback", f"{kind.__qualname__}.__del__ would be called from C code")

    def check_class_hooks(self, arguments: tuple[Value, ...]) -> None:
        class_guards.check_hooks(*arguments)

    def is_same(self, left: Value, right: Value) -> bool:
        if type(left) is LargeDict and type(right) is LargeDict:
            return left.original is right.original
        if left is right:
            return True
        if type(left) is OpaqueValue or type(right) is OpaqueValue:
            return unwrap(left) is unwrap(right)
        first, second = self.importer.find_source(left), self.importer.find_source(right)
        if first is not None and second is not None:
            self.guards.distinct(first, second)
        return False

    def is_open(self, condition: Value) -> bool:
        return type(condition) is TensorValue or sizes.is_unknown(condition)

    def require_outcome(self, condition: Value, outcome: bool) -> None:
        self.builder.reads.require_outcome(condition, outcome)

    def type_of(self, value: Value) -> type:
        kind = type(value)
        if kind is TensorValue or kind is NumberValue or kind is SubclassValue:
            return value.kind  # type: ignore[no-any-return]
        if kind is SizeTuple:
            return torch.Size
        if kind is OpaqueValue or issubclass(kind, OpenContainer):
            return type(value.original)
        return dict if kind in DICT_FACES else super().type_of(value)

    def is_trusted_check(self, kind: Value) -> bool:
        return is_trusted_module(getattr(type(kind), "__module__", None)) or super().is_trusted_check(kind)

    def is_instance(self, value: Value, kind: Value) -> bool:
        if type(value) is OpaqueValue or isinstance(value, OpenContainer):
            return bool(call_natively(isinstance, value.original, kind))
        if type(value) is NumberValue:
            return super().is_instance(value.kind(), kind)
        if type(value) is SubclassValue:
            return subclasses.is_instance(value, kind)
        if type(value) is SizeTuple:
            return isinstance(torch.Size(()), kind)
        if type(value) is not TensorValue:
            if isinstance(kind, abc.ABCMeta) and not is_trusted_module(kind.__module__):
                self.guard_query("abstract base classes", abc.get_cache_token)
            return isinstance({}, kind) if type(value) in DICT_FACES else super().is_instance(value, kind)
        if kind in (torch.Tensor, object, torch._C.TensorBase):
            return True
        if kind is torch.nn.Parameter:
            return value.kind is torch.nn.Parameter
        if isinstance(kind, type) and is_native_type(kind):
            return issubclass(value.kind, kind)
        return call_natively(isinstance, value.fake, kind) and kind not in (torch._subclasses.FakeTensor,)

    def note_ignored(self, error: BaseException) -> None:
        if isinstance(error, TracingStopped):
            self.ignored = error
        elif is_failure(error):
            self.ignored = TracingFailed(error)
        else:
            reason = Unsupported("generator", f"closing an unfinished generator raises: {error}")
            self.ignored = TracingStopped(reason)

    def check_finalizers(self) -> None:
        """Stop if a generator that went unfinished could not be closed in the machine."""
        if self.ignored is not None:
            raise self.ignored

    def check_raised(self, error: BaseException) -> None:
        if id(error) in self.importer.states:
            stop("raise-outside", f"a {type(error).__qualname__} from outside is raised")

    def identify(self, value: Value) -> int:
        """`id(value)`: the program may use it to tell whether two objects are one."""
        source = self.importer.find_source(value)
        if source is None or source.is_fixed:
            return id(value)
        if len(self.identified) > MOST_IDENTIFIED:
            stop("many-objects", f"more than {MOST_IDENTIFIED} argument objects are told apart by id()")
        for kind, other in self.identified:
            if kind is type(value) and other.key != source.key:
                self.guards.distinct(other, source)
        self.identified.append((type(value), source))
        return id(value)

    # calls

    def find_model(self, callee: Value) -> Any:
        if type(callee) is types.BuiltinFunctionType and callee.__name__ == "__reduce_ex__":
            return reducing.model_reduce(callee.__self__)
        model = torch_calls.TORCH_MODELS.get(callee) or torch_calls.model_of_dynamo(callee)
        return model if model is not None else super().find_model(callee)

    def call(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        kind = type(callee)
        if kind in OPERATOR_KINDS:
            if torch_calls.has_native_objects(callee):
                stop("native-object", f"the operator {callee} takes or gives an object that is no tensor")
            return self.builder.call(callee, arguments, keywords)
        if kind is OpaqueValue:
            callee = scripted.find_python(self, callee, arguments, keywords) or callee
            kind = type(callee)
        original = find_original(callee)
        if original is not None:
            # Compiled code inside compiled code is one program: the original is entered.
            callee = self.importer.bring(original, Fixed(original, natives.describe_native(callee)))
        return calls.call(self, callee, arguments, keywords)

    def call_python(
        self, function: types.FunctionType, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> Value:
        if torch_calls.is_leaf_function(function, arguments, keywords):
            return torch_calls.record_leaf(self, function, arguments, keywords)
        if is_disabled(function):
            stop("disabled", f"{function.__qualname__} is marked to run eagerly")
        if arguments and id(function) not in self.functions:
            self._guard_method(function, arguments[0])
        return self.machine.call_function(function, arguments, keywords)

    def _guard_method(self, function: types.FunctionType, owner: Value) -> None:
        """A function that a class gave, by an operator, `len` or a call: it is still the class's."""
        for kind in (owner, type(owner)) if isinstance(owner, type) else (type(owner),):
            if is_trusted_module(kind.__module__) or id(kind) in self.classes:
                continue
            name = find_name_in_class(kind, function)
            if name is not None:
                self.guards.identity(Field(Fixed(kind, kind.__qualname__), name), getattr(kind, name))
                return

    def call_native(self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        for value in (*arguments, *keywords.values()):
            if isinstance(value, OpenContainer):
                value.end_capture()
        if torch_calls.is_torch_builtin(callee) or torch_calls.is_tensor_method(callee):
            return torch_calls.record_leaf(self, callee, arguments, keywords)
        if subclasses.is_tensor_getter(callee):
            return self.load_attribute(arguments[0], callee.__self__.__name__)
        if isinstance(callee, functools._lru_cache_wrapper):
            return self._call_cached(callee, arguments, keywords)
        if hasattr(type(callee), "__machine_native__"):
            return super().call_native(callee, arguments, keywords)
        if callee in (int, float) and len(arguments) == 1 and type(arguments[0]) is TensorValue:
            return self.builder.reads.convert(callee, arguments[0])
        number_model = torch_calls.model_number_function(callee)
        if number_model is not None:
            return number_model(self, arguments, keywords)
        if isinstance(callee, weakref.ReferenceType):
            return self._call_reference(callee)
        if not natives.is_pure_native(callee):
            stop(
                "native-call",
                f"{natives.describe_native(callee)} is native code that the machine does not know",
                "call it outside the compiled function",
            )
        if sizes.holds_number(arguments, keywords):
            result = sizes.call_native(callee, arguments, keywords)
            if result is not NotImplemented:
                return result
        natives.check_readers(callee, arguments)
        hashing.check_call(callee, arguments)
        self._guard_native_call(callee, arguments, keywords)
        return super().call_native(callee, arguments, keywords)

    def _guard_native_call(
        self, callee: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]
    ) -> None:
        """Guards on state of the process that a native function tells."""
        name = getattr(callee, "__name__", "")
        if name == "__subclasses__" and isinstance(callee.__self__, type):
            class_guards.guard_subclasses(self.guards, callee.__self__)
        elif natives.is_query(callee) and not any(word in name for word in ("autocast", "grad", "inference")):
            shown = ", ".join(map(repr, (*arguments, *keywords.items())))
            self.guard_query(f"{name}({shown})", functools.partial(callee, *arguments, **keywords))

    def _call_reference(self, reference: Any) -> Value:
        state = self.importer.states.get(id(reference))
        return reference() if state is None else self.importer.bring(reference(), Called(state.source))

    def _call_cached(self, callee: Any, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> Value:
        if arguments and isinstance(arguments[0], logging.Logger):
            return self.add_effect(callee, arguments, keywords)
        # The cache only saves work: the function itself gives the same value and its guards.
        return self.call(callee.__wrapped__, arguments, keywords)

    # modes, modules, effects

    def record_mode(self, function: Any, arguments: tuple[Any, ...]) -> torch.fx.Node:
        """A node that switches a mode when the graph runs; it takes the place of one that it overrules."""
        last = next(iter(reversed(self.builder.graph.nodes)), None)
        if last is not None and last.target is function is torch._C._set_grad_enabled:
            self.builder.graph.erase_node(last)
        node = self.builder.graph.call_function(function, arguments)
        node.meta["location"] = self.machine.location()
        return node

    def has_hooks(self, module: Value) -> bool:
        """Whether calling `module` does more than its forward; guards the answer no."""
        own = [(name, self.read_instance_raw(module, name)) for name in HOOK_TABLES]
        shared = [(name, getattr(torch.nn.modules.module, name)) for name in SHARED_HOOK_TABLES]
        entries = module.__dict__
        for name, table in (*own, *shared):
            if table:
                return True
            self.hook_tables[id(table)] = (entries if entries.get(name) is table else None, name, table)
        return False

    def add_effect(self, function: Any, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> None:
        """Note a call to be made after the graph has run; only on values that cannot change until then."""
        arguments = tuple(sizes.specialize(value) for value in arguments)
        keywords = {name: sizes.specialize(value) for name, value in keywords.items()}
        for value in (*arguments, *keywords.values()):
            if not is_replayable(value):
                stop(
                    "effect-argument",
                    f"{natives.describe_native(function)} gets a {type(value).__qualname__}",
                    "print numbers and texts only, or call it outside the compiled function",
                )
        self.effects.append((call_later(function, self.machine.frame), arguments, keywords))

    def finish_guards(self) -> None:
        """Guards that no module got a hook, and on the classes that were met."""
        states, copies = self.importer.states.values(), self.importer.copies.values()
        class_guards.guard_objects(self.guards, states)
        kinds = [type(state.owner) for state in states] + [type(record.original) for record in copies]
        class_guards.guard_classes(self.guards, [*self.importer.classes, *kinds], self.classes)
        if self.hook_tables:
            class_guards.guard_hooks(self.guards, list(self.hook_tables.values()))

    def start_guards(self) -> None:
        """Guards on the thread-wide modes that every trace depends on."""
        for name, query in MODE_QUERIES:
            self.guard_query(name, query)
        self.interception_off = int(not torch._C._is_torch_function_enabled())
        self.modes.guard_autocast()
        if torch._C._len_torch_function_stack():
            self.guard_query("modes that intercept torch functions", list_function_modes)

    def refuse_outer_modes(self) -> None:
        """Stop where modes and transforms around the call would see, or need to see, each operation."""
        if set(list_function_modes()) - {"cpu"} or torch._C._len_torch_dispatch_stack():
            stop("torch-mode", "the call is made under a mode that intercepts torch functions")
        if torch._C._functorch.peek_interpreter_stack() is not None:
            stop("torch-mode", "the call is made inside a transform of torch.func")
        if read_dual_level() >= 0:
            stop("torch-mode", "the call is made where forward-mode derivatives are computed")

    def guard_query(self, name: str, query: Any) -> None:
        """Guard what a function without arguments says about a mode now."""
        value = query()
        if self.guards.is_new("query", name):
            write = functools.partial(write_mode, query=query, value=value)
            self.guards.add(MODES, name, repr(value), write, functools.partial(write_query, query=query))


@functools.lru_cache(maxsize=4096)
def find_name_in_class(kind: type, function: types.FunctionType) -> str | None:
    """Under which name instances of `kind` find `function` as a plain method; None where they do not."""
    names = [function.__name__, *(name for base in kind.__mro__ for name in base.__dict__)]
    return next((name for name in names if find_in_type(kind, name) is function), None)


def unwrap(value: Value) -> Value:
    return value.original if type(value) is OpaqueValue else value


def write_query(writer: Any, query: Any) -> str:
    return f"{writer.constant(query)}()"


def write_mode(writer: Any, query: Any, value: Any) -> str:
    test = "is" if value is None or isinstance(value, (bool, torch.dtype)) else "=="
    return f"{writer.constant(query)}() {test} {writer.constant(value)}"


read_dual_level: Any = functools.partial(getattr, torch.autograd.forward_ad, "_current_level")
"""The level of forward-mode differentiation, -1 outside."""


def list_function_modes() -> tuple[str, ...]:
    """The device of each mode that only names one (as `torch.set_default_device` does), "" for others."""
    overrides: Any = torch.overrides
    modes = overrides._get_current_function_mode_stack()
    return tuple(str(mode.device) if type(mode) is DeviceContext else "" for mode in modes)


MODE_QUERIES: tuple[tuple[str, Any], ...] = (
    ("grad mode", torch.is_grad_enabled),
    ("inference mode", torch.is_inference_mode_enabled),
    (
        "autocast",
        torch._C._is_any_autocast_enabled
        if hasattr(torch._C, "_is_any_autocast_enabled")
        else torch.is_autocast_enabled,
    ),
    ("default dtype", torch.get_default_dtype),
    ("torch function modes", torch._C._len_torch_function_stack),
    ("torch dispatch modes", torch._C._len_torch_dispatch_stack),
    ("level of forward-mode derivatives", read_dual_level),
)


def is_replayable(value: Value) -> bool:
    """Whether a value is the same when it is used later."""
    if isinstance(value, (*IMMUTABLE, NumberValue, type, logging.Logger)):
        return True
    return isinstance(value, tuple) and all(is_replayable(item) for item in value)
