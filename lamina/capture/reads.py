"""Values that only the running graph has: one trace's reads of tensors, sizes that depend on them, checks.

A read (`.item()`, `.tolist()`, `int(x)`) puts a node into the graph and gives an unknown number. Where the
program needs the number itself after all, the capture is made once more with that read refused: the break
then lies at the read, and what follows knows the number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch
import torch.fx

from lamina.capture.fake import print_expression, raw_expression
from lamina.capture.machine.signals import stop
from lamina.capture.noting_mode import NotingMode
from lamina.capture.packed_sequences import RULES, find_first
from lamina.capture.runtime_checks import require, require_layout, require_outcome, require_sizes
from lamina.capture.values.sizes import NumberValue, PendingCall, SizeTuple, combine
from lamina.capture.values.tensor import TensorValue, refuse_value
from lamina.capture.values.unknown import Unknown
from lamina.eager.known_results import MASKS

TORCH: Any = torch
MOST_READS = 16
"""Reads of one capture; a loop that makes more is better broken, so that its rounds share graphs."""
LONGEST_LIST = 64
PLAIN_LAYOUT = frozenset({"nonzero", "argwhere", "masked_select", "where", "unique"})
"""Operations whose results always lie in memory as on fakes."""


class Reads:
    """The reads and runtime checks of one graph under construction.

    refused: numbers of reads that are breaks. needed: numbers of reads whose values the program asked for.
    """

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.refused: frozenset[int] = frozenset()
        self.needed: set[int] = set()
        self.count = 0
        self._known: dict[tuple[int, int], tuple[TensorValue, NumberValue]] = {}
        self._behind: dict[str, set[int]] = {}
        """Reads behind a symbol, by its name."""
        self._numbers: dict[str, NumberValue] = {}
        """The number that a symbol was made for."""
        self._checks: list[torch.fx.Node] = []
        self._decided: set[int] = set()
        """Reads for conditions that the graph checks, and for indices, which may be out of range."""
        self._stated: set[Any] = set()
        """What the program's own checks say."""

    # reads

    def read_number(self, tensor: TensorValue, what: str) -> Any:
        """`tensor.item()`."""
        fake = tensor.fake
        if fake.dtype.is_complex or type(fake.numel()) is not int or fake.numel() != 1:
            refuse_value(what)
        size = self._find_size(fake)
        if size is not None:
            return size
        version = -1 if fake.is_inference() else fake._version
        known = self._known.get((id(tensor), version)) if version >= 0 else None
        if known is not None:
            return known[1]
        number = self._make(tensor, "item", kind_of_dtype(fake.dtype), what)
        self._known[id(tensor), version] = (tensor, number)
        return number

    def _find_size(self, fake: Any) -> Any:
        """The size that a tensor's only element is known to be; or None."""
        size = find_first(fake)
        if size is None or isinstance(size, int):
            return size
        place = self._find_place(str(raw_expression(size)))
        return self.builder.wrap_number(size, place) if type(place) is PendingCall else place

    def read_list(self, tensor: TensorValue) -> Any:
        """`tensor.tolist()` of one dimension, or of none."""
        fake = tensor.fake
        if fake.dim() == 0:
            return self.read_number(tensor, "Tensor.tolist")
        length = fake.shape[0]
        if fake.dim() > 1 or type(length) is not int or length > LONGEST_LIST or fake.dtype.is_complex:
            refuse_value("Tensor.tolist")
        kind = kind_of_dtype(fake.dtype)
        whole = self._make(tensor, "tolist", kind, "Tensor.tolist")
        calls = (
            PendingCall(self.builder, "call_function", operator.getitem, (whole, k), {})
            for k in range(length)
        )
        return [NumberValue(self.builder, Unknown(kind, self.count - 1), None, call) for call in calls]

    def convert(self, native: Callable[..., Any], tensor: TensorValue) -> Any:
        """`int(tensor)` and `float(tensor)`."""
        number = self.read_number(tensor, f"{native.__name__}() of a tensor")
        if type(number) is not NumberValue:
            return native(number)
        return number if number.kind is native else combine(native, number)

    def _make(self, tensor: TensorValue, method: str, kind: type, what: str) -> NumberValue:
        number = self.count
        self.count += 1
        if number in self.refused or number >= MOST_READS:
            refuse_value(what)
        node = self.builder.create_node("call_method", method, (tensor,), {})
        node.meta["reads_values"] = True
        node.meta["number"] = kind
        return NumberValue(self.builder, Unknown(kind, number), None, None, None, node)

    # symbols

    def make_symbol(self, number: NumberValue) -> Any:
        """A new symbol for an unknown int or condition."""
        if number.kind is not int:
            self.give_up(
                (number,), f"an operation on tensors takes a {number.kind.__name__} that only the graph knows"
            )
        symbols = self.builder.symbols
        symbols.prepare()
        made = symbols.environment.create_unbacked_symint()
        name = str(made.node.expr)
        self._behind[name] = self.find_behind(number)
        self._numbers[name] = number
        return made

    def find_behind(self, value: Any) -> set[int]:
        """The reads that a value, or the sizes of a tensor, depend on."""
        kind = type(value)
        if kind is TensorValue:
            return self._find_behind_symbols(value.fake.shape)
        if kind is NumberValue:
            if not value.is_unknown:
                return set()
            found = {value.hint.read} if value.hint.read >= 0 else set()
            if value.symbolic is not None:
                found |= self._find_behind_symbols((value.symbolic,))
            return found if value.call is None else found | self.find_behind(value.call.arguments)
        if kind in (tuple, list, SizeTuple):
            return set().union(*(self.find_behind(each) for each in value))
        if kind is slice:
            return self.find_behind((value.start, value.stop, value.step))
        return set()

    def _find_behind_symbols(self, sizes: Iterable[Any]) -> set[int]:
        symbolic = [raw_expression(size) for size in sizes if not isinstance(size, int)]
        names = {symbol.name for expression in symbolic for symbol in expression.free_symbols}
        return set().union(*(self._behind.get(name, ()) for name in names))

    def has_unknown(self, value: Any) -> bool:
        """Whether an argument of an operation is unknown, or has sizes that are."""
        kind = type(value)
        if kind is TensorValue:
            return any(self.builder.symbols.is_unknown(size) for size in value.fake.shape)
        if kind is NumberValue:
            return bool(value.is_unknown)
        if kind in (tuple, list, SizeTuple):
            return any(self.has_unknown(each) for each in value)
        return kind is slice and self.has_unknown((value.start, value.stop, value.step))

    def note_needed(self, values: Any) -> None:
        """The program cannot go on without these values."""
        self.needed |= self.find_behind(tuple(values))

    def give_up(self, values: Any, message: str) -> NoReturn:
        """Stop at an operation that unknown values are too little for."""
        self.note_needed(values)
        stop(
            "data-dependent",
            message,
            "keep the value in a tensor (torch.where, masks), or compute it outside",
        )

    # checks

    def note_check(self, node: torch.fx.Node) -> None:
        """A node that may raise where it stands."""
        node.meta["checks"] = True
        self._checks.append(node)

    def note_result(self, node: torch.fx.Node, mode: NotingMode) -> None:
        """What the operations behind a node did."""
        if mode.has_effect:
            node.meta["has_effect"] = True
        if mode.reads_values:
            node.meta["reads_values"] = True

    def check_layout(self, result: Any, target: Any, arguments: tuple[Any, ...]) -> None:
        """See that a result of a size unknown lies in memory as its fake does."""
        if getattr(target, "__name__", target) in PLAIN_LAYOUT or target in RULES:
            return
        if is_plain_mask(target, arguments):
            return
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if type(value) is TensorValue and value.fake.dim() > 1 and self.has_unknown(value):
                order = self._find_order(value)
                node = self.builder.create_node("call_function", require_layout, (value, order), {})
                self.note_check(node)

    def _find_order(self, value: TensorValue) -> tuple[int, ...]:
        shape, strides = value.fake.shape, value.fake.stride()
        ranks = range(len(shape))
        for order in (tuple(ranks), tuple(reversed(ranks))):
            plain: dict[int, Any] = {}
            # Torch counts an empty dimension as one element, or leaves it away.
            positive: dict[int, Any] = {}
            steps: Any = (1, 1)
            for dimension in reversed(order):
                plain[dimension], positive[dimension] = steps
                size = shape[dimension]
                steps = (steps[0] * size, steps[1] * TORCH.sym_max(1, size))
            if any(all(is_equal(found[k], strides[k]) for k in ranks) for found in (plain, positive)):
                return order
        return self.give_up((value,), "a result whose size and layout depend on the values of a tensor")

    def require(self, error: str, condition: NumberValue, message: str) -> None:
        """The program states that an unknown condition holds."""
        node = self.builder.create_node("call_function", require, (error, condition, message), {})
        self.note_check(node)
        if not rests_on_ints(condition):
            return
        from torch.fx.experimental.symbolic_shapes import expect_true

        symbol = condition.fake
        if isinstance(symbol, torch.SymBool):
            self._stated.add(symbol.node.expr)
            if not expect_true(symbol):
                stop("raises", f"a check of the program fails: {message}")

    def require_outcome(self, condition: TensorValue | NumberValue, outcome: bool) -> None:
        """The program goes on only where a condition is `outcome`, else it raises."""
        if type(condition) is TensorValue:
            condition = self.read_number(condition, "a branch on a tensor")
        node = self.builder.create_node("call_function", require_outcome, (condition, outcome), {})
        self.note_check(node)

    def note_index(self, number: NumberValue) -> None:
        """An unknown number is an index."""
        self._decided |= self.find_behind(number)

    def finish(self) -> None:
        """What the shape rules assumed is checked at the graph's end."""
        for condition in self._list_assumed():
            self._add_size_check(condition)
        # A failed check means another run, in eager; that must find the inputs as they were.
        if (self._checks or self._decided) and any(value.is_mutated() for value in self.builder.inputs):
            self.needed |= set(range(self.count))
            self.give_up((), "values of tensors are checked in a graph that writes to an input")

    def drop_unused(self) -> None:
        """Reads that nobody uses go."""
        for node in reversed(list(self.builder.graph.nodes)):
            is_read = node.op == "call_method" and node.target in ("item", "tolist")
            if is_read and not node.users:
                self.builder.graph.erase_node(node)

    def _list_assumed(self) -> list[Any]:
        environment = self.builder.symbols.environment
        if environment is None:
            return []
        found = [each.expr for group in environment.deferred_runtime_asserts.values() for each in group]
        # Nothing in a graph depends on where in its memory a tensor starts.
        offsets = {
            str(raw_expression(value.fake.storage_offset()))
            for value in self.builder.list_values()
            if type(value) is TensorValue and isinstance(value.fake.storage_offset(), torch.SymInt)
        }
        return [
            each
            for each in dict.fromkeys(found)
            if each not in self._stated and not {symbol.name for symbol in each.free_symbols} <= offsets
        ]

    def _add_size_check(self, condition: Any) -> None:
        text = print_expression(condition)
        names = sorted(symbol.name for symbol in condition.free_symbols)
        places = [self._find_place(name) for name in names]
        if text is None or any(place is None for place in places):
            self.give_up((), f"that {condition} holds cannot be checked in the graph")
        arguments = (text, tuple(names), *places)
        self.note_check(self.builder.create_node("call_function", require_sizes, arguments, {}))

    def _find_place(self, name: str) -> Any:
        """A value of the program that is the symbol `name`."""
        if name in self._numbers:
            return self._numbers[name]
        for value in self.builder.list_values():
            if type(value) is NumberValue:
                if value.symbolic is not None and str(raw_expression(value.symbolic)) == name:
                    return value
                continue
            for dimension, size in enumerate(value.fake.shape):
                if not isinstance(size, int) and str(raw_expression(size)) == name:
                    return PendingCall(self.builder, "call_method", "size", (value, dimension), {})
        return None


def kind_of_dtype(dtype: torch.dtype) -> type:
    """The class of the number that an element of this type is in Python."""
    return bool if dtype is torch.bool else float if dtype.is_floating_point else int


def is_plain_mask(target: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a call is `x[mask]` of a tensor without gaps."""
    if target is not operator.getitem or type(arguments[1]) is not TensorValue:
        return False
    sizes = arguments[0].fake.shape
    is_static = all(isinstance(size, int) for size in sizes)
    return is_static and arguments[1].fake.dtype in MASKS and arguments[0].fake.is_contiguous()


def is_equal(left: Any, right: Any) -> bool:
    """Whether two sizes are the same expression."""
    return bool(expression_of(left) == expression_of(right))


def expression_of(size: Any) -> Any:
    return size if isinstance(size, int) else size.node.expr


def rests_on_ints(condition: NumberValue) -> bool:
    """Whether an unknown condition compares ints, so that torch's algebra can take it in."""
    if condition.call is None:
        return condition.symbolic is not None
    return all(
        isinstance(each, int) or (type(each) is NumberValue and each.kind is int)
        for each in condition.call.arguments
    )
