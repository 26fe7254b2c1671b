"""The classes and functions that every random program starts with."""

from __future__ import annotations

PRELUDE = """
import contextlib, functools, itertools, operator, collections, dataclasses, enum

def clip(value):
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value % 1000003 if abs(value) > 1000003 else value
    if isinstance(value, (str, list, tuple, bytes)):
        return value[:12]
    return value

class Manager:
    def __init__(self, name, swallow=()):
        self.name, self.swallow = name, swallow
    def __enter__(self):
        print("enter", self.name)
        return self
    def __exit__(self, kind, error, trace):
        print("exit", self.name, kind and kind.__name__)
        return isinstance(error, self.swallow)

@contextlib.contextmanager
def guarded(name):
    print("open", name)
    try:
        yield name
    except ValueError as error:
        print("guarded", error)
    finally:
        print("close", name)

class Box:
    __match_args__ = ("value", "tag")
    made = 0
    def __init__(self, value, tag="t"):
        self.value, self.tag = value, tag
        Box.made += 1
    def __repr__(self):
        return f"Box({self.value!r})"
    def __add__(self, other):
        if isinstance(other, str):
            return NotImplemented
        return Box(clip(self.value + (other.value if isinstance(other, Box) else other)))
    def __radd__(self, other):
        return Box(clip(other + self.value), "r")
    def __iadd__(self, other):
        self.value = clip(self.value + other)
        return self
    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value
    def __lt__(self, other):
        return self.value < getattr(other, "value", other)
    def __hash__(self):
        return hash(self.value)
    def __bool__(self):
        return bool(self.value)
    def __len__(self):
        return len(self.value)
    def __getitem__(self, index):
        return self.value[index]
    def __contains__(self, item):
        return item == self.value
    def __call__(self, *args, **kwargs):
        return (self.value, args, sorted(kwargs.items()))
    def __getattr__(self, name):
        if name.startswith("a_"):
            return name[2:] * 2
        raise AttributeError(name)
    @property
    def twice(self):
        return clip(self.value * 2)
    @twice.setter
    def twice(self, value):
        self.value = value // 2
    @classmethod
    def make(cls, value):
        return cls(value, "made")
    @staticmethod
    def plain(value):
        return ("plain", value)

class Derived(Box):
    def __init__(self, value, tag="d"):
        super().__init__(value, tag)
        self.extra = [value]
    def __repr__(self):
        return "Derived:" + super().__repr__()
    def __radd__(self, other):
        return ("derived radd", other)

class Countdown:
    def __init__(self, start):
        self.left = min(int(start), 5)
    def __iter__(self):
        return self
    def __next__(self):
        if self.left <= 0:
            raise StopIteration
        self.left -= 1
        return self.left

class Color(enum.Enum):
    RED = 1
    BLUE = 2

@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0

class Fault(ValueError):
    def __init__(self, code):
        super().__init__(f"fault {code}")
        self.code = code

def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        print("call", function.__name__, len(args))
        return function(*args, **kwargs)
    return wrapper
"""
