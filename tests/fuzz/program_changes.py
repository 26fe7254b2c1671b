"""What `call_sequences` does to `changing_program` between calls, by the section that reads what is changed.

A change takes the program's module, its whole and a source of random numbers.
"""

from __future__ import annotations

import collections
import functools
import sys
import types

import torch
from torch.nn.utils import parametrize


def put(owner, name, *values):
    """The change that sets an attribute to one of some values, or makes it."""
    return lambda p, w, r: setattr(owner(p, w), name, r.choice(values))


def drop(owner, name):
    """The change that removes an attribute of the object itself."""

    def change(p, w, r):
        if name in vars(owner(p, w)):
            delattr(owner(p, w), name)

    return change


def of_module(p, w):
    return p


def of_whole(p, w):
    return w


def of_part(p, w):
    return w.part


def of_class(p, w):
    return p.Part


def of_base(p, w):
    return p.Base


def of_meta(p, w):
    return p.Meta


def of_layer(p, w):
    return w.layer


def of_parent(p, w):
    return p.Parent


def of_child(p, w):
    return w.child


def of_child_class(p, w):
    return p.Child


def of_library(p, w):
    return p.LIBRARY


def always(value):
    return lambda *_: value


def twice(module, args, output):
    return output * 2


class Late:
    """A data descriptor."""

    def __get__(self, owner, kind):
        return 3

    def __set__(self, owner, value):
        raise AttributeError("read only")


NAMES_OUTSIDE = [
    put(of_module, "OFFSET", 1, 1.0, True, 2),
    lambda p, w, r: setattr(p, "CHOSEN", r.choice([p.double, p.halve])),
    lambda p, w, r: p.FACTORS.__setitem__("a", r.choice([1.0, 1, 3.0])),
    lambda p, w, r: p.FACTORS.__setitem__(r.choice("cd"), r.random()),
    lambda p, w, r: setattr(p, "ALIAS", r.choice([p.FACTORS, {"b": 5}])),
    lambda p, w, r: setattr(
        p, "SHIFT", functools.partial(p.shift, by=r.choice([1, 2]), sign=r.choice([1, -1]))
    ),
    lambda p, w, r: p.SHIFT.keywords.__setitem__("by", r.choice([1, 2, 3])),
    lambda p, w, r: p.SHIFT.__setstate__((p.shift, (), {"sign": r.choice([1, -1])}, {})),
    lambda p, w, r: setattr(p, "len", r.choice([len, always(7)])),
    drop(of_module, "len"),
    lambda p, w, r: setattr(p.shift, "__defaults__", (r.choice([1, 4]),)),
    lambda p, w, r: setattr(p.shift, "__kwdefaults__", {"sign": r.choice([1, -1])}),
    lambda p, w, r: p.shift.__kwdefaults__.__setitem__("sign", r.choice([1, -1])),
    lambda p, w, r: setattr(p.double, "__code__", r.choice([p.double, p.halve]).__code__),
]

LIST_OF_OBJECTS = [
    lambda p, w, r: w.parts.append(p.Part()) if len(w.parts) < 4 else w.parts.pop(),
    lambda p, w, r: w.parts.reverse(),
    lambda p, w, r: setattr(w.parts[0], "scale", r.randint(1, 3)),
    lambda p, w, r: setattr(w, "parts", r.choice([[w.part, w.part], (w.part,)])),
    lambda p, w, r: setattr(w.parts[-1], "apply", r.choice([p.double, p.halve])),
    drop(lambda p, w: w.parts[-1], "apply"),
    put(of_class, "__setattr__", object.__setattr__, lambda s, n, v: object.__setattr__(s, n, v)),
]

ATTRIBUTES_OF_KINDS = [
    put(of_whole, "flag", True, 1, False, 0, "yes"),
    put(of_whole, "limit", None, 2, 2.0, -0.0, 0.0, float("nan"), True),
    put(of_whole, "extra", 1, "t", None),
    drop(of_whole, "extra"),
    lambda p, w, r: w.__dict__.update(flag=r.choice([True, False])),
]

CONTAINERS = [
    lambda p, w, r: w.table.__setitem__("x", r.choice([1, 1.0, True])),
    lambda p, w, r: w.table.__setitem__("y", r.choice([(1, 2.0, None), [1, 2.0, None], (1, 2, None)])),
    lambda p, w, r: w.table.__setitem__(r.choice("zw"), 0),
    lambda p, w, r: w.table.pop("z", None),
    lambda p, w, r: w.order.move_to_end(r.choice("pq")),
    lambda p, w, r: w.order.__setitem__("p", r.randint(1, 2)),
    lambda p, w, r: w.queue.append(r.randint(1, 3)),
    lambda p, w, r: w.queue.rotate(1),
    lambda p, w, r: setattr(w, "queue", collections.deque(w.queue, maxlen=r.choice([2, 3]))),
    lambda p, w, r: w.names.symmetric_difference_update({"n"}),
    lambda p, w, r: w.names.add("m"),
    lambda p, w, r: setattr(w, "bounds", slice(0, r.randint(1, 3))),
    lambda p, w, r: w.iterable.reverse(),
]

METHODS = [
    put(of_part, "scale", 1, 2, 2.0, True),
    put(of_part, "name", "part", "p", "else"),
    put(of_part, "rate", 0.5, 0.25),
    drop(of_part, "rate"),
    lambda p, w, r: setattr(p.Part, "rate", r.choice([0.5, 0.75, property(always(2)), p.Rate()])),
    lambda p, w, r: setattr(p.Rate, "__get__", r.choice([lambda s, o, k: 0.5, lambda s, o, k: 3])),
    lambda p, w, r: setattr(p.Rate, "__set__", lambda s, o, v: None),
    drop(lambda p, w: p.Rate, "__set__"),
    put(of_base, "rate", Late()),
    lambda p, w, r: setattr(w.part, "weight", torch.full((3,), float(r.randint(0, 3)))),
    lambda p, w, r: w.part.weight.add_(1),
    lambda p, w, r: setattr(w.part, "weight", torch.ones(3, dtype=torch.float64)),
    lambda p, w, r: setattr(w, "part", p.Part()),
    lambda p, w, r: setattr(w.part, "__class__", r.choice([p.Part, p.OtherPart])),
    put(of_base, "size", always(1), always(5)),
    put(of_class, "size", always(1), always(6)),
    drop(of_class, "size"),
    put(of_part, "size", always(7)),
    drop(of_part, "size"),
    lambda p, w, r: setattr(w, "method", r.choice([w.part.apply, p.double, w.parts[0].apply])),
    lambda p, w, r: setattr(w, "method", types.MethodType(lambda s, x: x * 3, w.part)),
    put(of_class, "__getattribute__", object.__getattribute__),
    drop(of_class, "__getattribute__"),
]

SPECIAL_METHODS = [
    put(of_class, "half", property(always(3)), property(always(1)), 4),
    lambda p, w, r: setattr(w.part, "mode", r.choice(list(p.Mode))),
    put(of_class, "__bool__", always(True), always(False)),
    drop(of_class, "__bool__"),
    put(of_base, "__len__", always(0), always(1)),
    drop(of_base, "__len__"),
    put(of_class, "__add__", always(2), always(3)),
    drop(of_class, "__add__"),
    put(of_base, "__add__", always(1), always(4)),
    put(of_base, "__eq__", always(True), always(False)),
    drop(of_base, "__eq__"),
    put(of_meta, "level", 1, 2),
    put(of_meta, "__contains__", always(True), always(False)),
    lambda p, w, r: setattr(p.OtherPart, "__bases__", r.choice([(p.Part,), (p.Part, p.Base)])),
]

CLOSURES_AND_SLOTS = [
    lambda p, w, r: w.write(r.choice([1, 1.5, True])),
    lambda p, w, r: setattr(w.slotted, "second", r.choice([1, 2])),
    lambda p, w, r: hasattr(w.slotted, "second") and delattr(w.slotted, "second"),
    lambda p, w, r: setattr(w.slotted, "first", r.choice([1, 1.0, True])),
    lambda p, w, r: setattr(w, "read", p.make_counter(r.randint(1, 3))[0]),
]

MODULES = [
    lambda p, w, r: setattr(w, "bias", torch.nn.Parameter(torch.full((3,), 2.0))),
    lambda p, w, r: w.bias.requires_grad_(r.choice([True, False])),
    lambda p, w, r: w.bias.data.add_(1),
    lambda p, w, r: w.layer.train(r.choice([True, False])),
    put(of_layer, "steps", 1, 2, 3),
    lambda p, w, r: setattr(w.layer, "offset", torch.full((3,), float(r.randint(0, 2)))),
    lambda p, w, r: w.layer.offset.add_(1),
    lambda p, w, r: setattr(w.layer, "inner", p.make_linear(bias=r.choice([True, False]))),
    lambda p, w, r: w.layer.inner.register_forward_hook(twice),
    lambda p, w, r: w.layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    lambda p, w, r: w.layer.inner._forward_hooks.clear(),
    lambda p, w, r: w.layer._forward_pre_hooks.clear(),
    lambda p, w, r: setattr(w.layer, "_forward_hooks", {0: twice} if r.random() < 0.5 else {}),
    lambda p, w, r: w.layer.load_state_dict(
        {name: value + 1 for name, value in w.layer.state_dict().items()}
    ),
    lambda p, w, r: w.layer.to(r.choice([torch.float32, torch.float64])),
    lambda p, w, r: parametrize.register_parametrization(w.layer.inner, "weight", p.Doubled()),
    put(lambda p, w: p.Doubled, "factor", 2, 3),
    lambda p, w, r: parametrize.remove_parametrizations(w.layer.inner, "weight"),
    lambda p, w, r: w.layer.__dict__.update(offset=r.randint(1, 3)),
    lambda p, w, r: w.layer.__dict__.pop("offset", None),
    lambda p, w, r: w.layer.__dict__.update(_buffers={"offset": torch.full((3,), float(r.randint(0, 2)))}),
    lambda p, w, r: w.layer.__dict__.update(_modules={"inner": p.make_linear()}),
    lambda p, w, r: setattr(p.Layer, "forward", r.choice([p.Layer.forward, lambda s, x: x * 3])),
    lambda p, w, r: setattr(w.layer, "forward", lambda x: x * 5),
    drop(of_layer, "forward"),
]

INHERITANCE = [
    put(of_parent, "measure", always(1), always(2)),
    put(of_child_class, "measure", lambda s: 1 + super(type(s), s).measure()),
    put(of_child, "measure", always(9)),
    drop(of_child, "measure"),
    put(of_child_class, "fixed", staticmethod(always(1)), always(4), classmethod(always(5))),
    put(of_child_class, "__call__", lambda s, x: x + 1, lambda s, x: x * 2),
    put(of_child_class, "__getitem__", lambda s, i: i, lambda s, i: i * 3),
    put(of_child_class, "__iter__", lambda s: iter((3,)), lambda s: iter((1, 2))),
    put(of_parent, "__getattr__", lambda s, n: 5, lambda s, n: 6),
    drop(of_parent, "__getattr__"),
    put(of_parent, "late", 2, Late(), property(always(8))),
    drop(of_parent, "late"),
    put(of_child, "late", 4),
    drop(of_child, "late"),
    put(of_child, "later", 4),
    put(of_child_class, "__getattribute__", lambda s, n: 2 if n == "late" else object.__getattribute__(s, n)),
    drop(of_child_class, "__getattribute__"),
]

RECORDS = [
    put(lambda p, w: w.record, "count", 1, 2, 2.0, True),
    put(lambda p, w: w.record, "ratio", 0.5, 0.25),
    lambda p, w, r: setattr(w, "record", p.Record(r.randint(1, 2))),
    put(lambda p, w: p.Record, "__eq__", always(True), always(False)),
    put(lambda p, w: p.Record, "count", 1, property(always(3))),
    lambda p, w, r: setattr(w, "pair", p.Pair(r.choice([1, 2, True]), r.choice([0.5, 1]))),
    put(lambda p, w: p.Pair, "left", property(always(4)), property(lambda s: s[0])),
    lambda p, w, r: p.Record.__dataclass_fields__.pop("ratio", None),
]

NATIVE_OBJECTS = [
    lambda p, w, r: setattr(w.space, "number", r.choice([1, 2, 1.0])),
    lambda p, w, r: setattr(w.space, "method", r.choice([w.part.apply, w.parts[0].apply, p.double])),
    lambda p, w, r: setattr(w.space, "late", 1),
    drop(lambda p, w: w.space, "late"),
    lambda p, w, r: setattr(w.local, "number", r.choice([1, 2, 1.0])),
    lambda p, w, r: setattr(w, "space", types.SimpleNamespace(number=3, method=p.halve)),
]

KEYS_OF_DICTS = [
    lambda p, w, r: setattr(w.key, "number", r.choice([1, 2, 5, 9])),
    lambda p, w, r: setattr(w, "key", r.choice([p.Key(2), 5, 6])),
    lambda p, w, r: setattr(next(iter(w.plain)), "number", r.randint(1, 3)),
    lambda p, w, r: w.plain.update({p.Plain(3): r.randint(1, 3)}) if len(w.plain) < 4 else w.plain.popitem(),
    lambda p, w, r: w.keyed.update({p.Key(r.choice([1, 2])): r.randint(1, 3)}),
    put(lambda p, w: p.Key, "__eq__", lambda s, o: s is o, lambda s, o: s.number == o),
    put(lambda p, w: p.Key, "__hash__", lambda s: hash(s.number), lambda s: 1),
]

FUNCTIONS_MADE_IN_LOOPS = [
    lambda p, w, r: setattr(w.loops[0].__closure__[0], "cell_contents", r.randint(1, 3)),
    lambda p, w, r: setattr(w, "loops", [lambda x, k=number: x + k for number in range(r.randint(1, 3))]),
    lambda p, w, r: w.loops.reverse(),
    put(lambda p, w: p.double, "__name__", "double", "longer_name"),
    put(lambda p, w: p.halve, "mark", 1, 2),
    drop(lambda p, w: p.halve, "mark"),
    lambda p, w, r: p.cached.cache_clear(),
    lambda p, w, r: setattr(p, "cached", r.choice([functools.lru_cache(p.tripled), p.tripled])),
]

LISTS_OF_MODULES = [
    lambda p, w, r: w.layers.append(torch.nn.Tanh()) if len(w.layers) < 4 else w.layers.pop(0),
    lambda p, w, r: w.layers.__setitem__(0, r.choice([torch.nn.ReLU, torch.nn.Sigmoid])()),
    lambda p, w, r: w.chain.append(torch.nn.Sigmoid()),
    lambda p, w, r: w.chain.__setitem__(0, r.choice([torch.nn.Identity, torch.nn.Sigmoid])()),
    lambda p, w, r: w.chain._modules.move_to_end("0") if isinstance(w.chain._modules, collections.OrderedDict)
    else w.chain._modules.update({"0": w.chain._modules.pop("0")}),
    lambda p, w, r: w.named.update({r.choice(["relu", "other"]): torch.nn.Tanh()}),
    lambda p, w, r: w.named.pop("other"),
    lambda p, w, r: w.chain.__dict__.update(_modules=dict(reversed(w.chain._modules.items()))),
    lambda p, w, r: w.chain[0].register_forward_hook(twice),
]  # fmt: skip

TENSORS = [
    lambda p, w, r: setattr(w.tensor, "scale", r.randint(1, 3)),
    drop(lambda p, w: w.tensor, "scale"),
    lambda p, w, r: setattr(w.leaf, "grad", r.choice([None, torch.ones(3), torch.full((3,), 2.0)])),
    lambda p, w, r: setattr(w, "tensor", r.choice([torch.ones(3), torch.ones(2, 3), torch.ones(6)[::2]])),
    lambda p, w, r: setattr(w, "tensor", torch.nn.Parameter(torch.ones(3))),
    lambda p, w, r: w.tensor.requires_grad_(r.choice([True, False])),
    lambda p, w, r: setattr(w, "leaf", w.tensor),
    lambda p, w, r: setattr(w.tensor, "data", torch.full((3,), 4.0)),
    lambda p, w, r: w.tensor.resize_(r.choice([1, 3])),
]

OTHER_MODULES = [
    put(of_library, "VALUE", 1, 2, 2.0),
    lambda p, w, r: setattr(p.LIBRARY, "scale", r.choice([p.double, p.halve])),
    put(of_library, "late", 5),
    drop(of_library, "late"),
    lambda p, w, r: sys.modules.update(changing_library=r.choice([p.LIBRARY, make_library(p)])),
    lambda p, w, r: sys.modules.pop("changing_library", None),
    lambda p, w, r: sys.modules.update(changing_extra=p),
    lambda p, w, r: sys.modules.pop("changing_extra", None),
    lambda p, w, r: setattr(p.LIBRARY, "__getattr__", r.choice([always(6), always(7)])),
    drop(of_library, "__getattr__"),
]


def make_library(p):
    library = types.ModuleType("changing_library")
    library.VALUE, library.scale = 3, p.halve
    return library


THREAD_STATE = [
    lambda p, w, r: torch.set_default_dtype(r.choice([torch.float32, torch.float64])),
    lambda p, w, r: torch.use_deterministic_algorithms(r.choice([True, False])),
    lambda p, w, r: torch._C._set_cudnn_enabled(r.choice([True, False])),
    lambda p, w, r: torch.set_float32_matmul_precision(r.choice(["high", "highest"])),
    lambda p, w, r: p.CONTEXT.set(r.randint(1, 2)),
    lambda p, w, r: torch.set_autocast_enabled("cpu", r.choice([True, False])),
    lambda p, w, r: torch.set_autocast_dtype("cpu", r.choice([torch.bfloat16, torch.float16])),
]

REGISTRIES = [
    lambda p, w, r: p.dispatched.register(int, always(r.randint(1, 3))),
    lambda p, w, r: p.dispatched.register(object, always(r.randint(1, 3))),
    lambda p, w, r: p.Interface.register(p.Part),
    lambda p, w, r: setattr(w, "kept", type("Kept", (p.Parent,), {})),
    put(of_class, "__name__", "Part", "LongerName"),
    put(lambda p, w: p.Mode.OTHER, "_value_", 2, 3),
    lambda p, w, r: setattr(w.part, "__class__", r.choice([p.Part, p.OtherPart])),
]

GENERATORS = [
    lambda p, w, r: setattr(p.counting, "__code__", make_counting(r.randint(1, 2)).__code__),
    lambda p, w, r: setattr(w, "iterable", r.choice([[1, 2, 3], (1, 2, 3), range(1, 5)])),
    lambda p, w, r: setattr(p, "sum", always(7)),
    drop(of_module, "sum"),
    lambda p, w, r: setattr(w, "iterable", [r.choice([1, 1.0, True]), 2, 3]),
]


def make_counting(step):
    def counting_once(stop):
        yield stop

    def counting(stop):
        yield from range(stop)

    return counting_once if step == 1 else counting


OF_THE_CALL = [
    lambda p, w, r: setattr(w, "run", lambda x, k=3: p.Whole.run(w, x + 1, k)),
    drop(of_whole, "run"),
    lambda p, w, r: setattr(p.Whole.run, "__defaults__", (r.choice([3, 3.0, 4]),)),
    lambda p, w, r: setattr(w, "sections", w.sections[::-1]),
]

CHANGES = {
    "names_outside": NAMES_OUTSIDE,
    "list_of_objects": LIST_OF_OBJECTS,
    "attributes_of_kinds": ATTRIBUTES_OF_KINDS,
    "containers": CONTAINERS,
    "methods": METHODS,
    "special_methods": SPECIAL_METHODS,
    "closures_and_slots": CLOSURES_AND_SLOTS,
    "modules": MODULES,
    "inheritance": INHERITANCE,
    "records": RECORDS,
    "native_objects": NATIVE_OBJECTS,
    "keys_of_dicts": KEYS_OF_DICTS,
    "functions_made_in_loops": FUNCTIONS_MADE_IN_LOOPS,
    "lists_of_modules": LISTS_OF_MODULES,
    "tensors": TENSORS,
    "other_modules": OTHER_MODULES,
    "thread_state": THREAD_STATE,
    "registries": REGISTRIES,
    "generators": GENERATORS,
}
"""By the name of the section."""
