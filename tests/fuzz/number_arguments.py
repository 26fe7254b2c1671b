"""Random numbers among the arguments of operations: every result, or error, is eager's.

    python tests/fuzz/number_arguments.py --first 0 --count 5000 [--only clamp]

A case calls one compiled operation with several numbers in turn: the first is a constant of its program, later ones
may be inputs. Numbers are ordinary ones, and those that a type does not hold, that eager treats apart or that
round; an operation in a higher precision decides where two results are further apart than rounding.
"""

from __future__ import annotations

import cmath
import math
import pathlib
import random
import sys
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

import lamina  # noqa: E402
from tests.fuzz.number_operations import EXACT, OPERATIONS  # noqa: E402
from tests.fuzz.seeded_cases import run_cases  # noqa: E402
from tests.parity.compare import copy_arguments, find_difference, flatten, widen  # noqa: E402

TYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.bool),
    *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8),
)
TYPE_WEIGHTS = (6, 2, 3, 3, 1, 1, 2, 1, 2, 2, 2)
ORDINARY = (0.3, 0.45, 0.7, 1.7, 2.5)
SPECIAL = (
    *(1e39, -1e39, 1e300, math.inf, -math.inf, math.nan, 0.0, -0.0, 0.5, -0.5, 1.0, 2.0, 3.0, -1.0, 1e-40),
    *(65504.0, 65519.0, 65520.0, 3.4e38, 3.4028235677973366e38, 3.4028235e38, 0, 1, 2, 3, -1, 127, 128, 255, 256),
    *(300, -129, 2**15, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**62), 2**63, 2**64, True, False, 1 + 2j, 2j),
)  # fmt: skip
SIGNED = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, math.nan, math.inf, -math.inf, 1e30, 1e-30)
SIZES = ((), (3,), (2, 5), (4, 9), (3, 4))


def make_tensor(choose, dtype):
    """A tensor of a type, some of it zeros of both signs, nan and infinities; its memory in any order."""
    size = choose.choice(SIZES)
    generator = torch.Generator().manual_seed(choose.randrange(2**31))
    if dtype is torch.bool:
        made = torch.rand(size, generator=generator) > 0.5
    elif dtype.is_floating_point or dtype.is_complex:
        made = torch.randn(size, generator=generator, dtype=torch.float64).to(dtype)
        flat = made.reshape(-1)
        for _ in range(choose.choice((0, 0, 1, 3))):
            flat[choose.randrange(flat.numel())] = choose.choice(SIGNED)
    else:
        made = torch.randint(0 if dtype is torch.uint8 else -9, 10, size, generator=generator).to(dtype)
    return made.t() if made.dim() == 2 and choose.random() < 0.3 else made


def outcome(function, arguments):
    """(result, None) of a call from a fixed random state, or (None, error)."""
    torch.manual_seed(0)
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


def describe(error):
    """The kind of an error and the first line of its text."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def differ(name, fast, x, number):
    """How a compiled call differs from eager's; "" where it does not."""
    program = OPERATIONS[name]
    if name in ("elu", "celu") and not is_finite(number):
        return ""  # at 0 eager's vectors give nan, what is left over of a row 0
    arguments = [copy_arguments((x, number)) for _ in range(3)]
    expected, refused = outcome(program, arguments[0])
    got, error = outcome(fast, arguments[1])
    if refused is not None or error is not None:
        wanted = "a result" if refused is None else describe(refused)
        found = "a result" if error is None else describe(error)
        return "" if wanted == found else f"gives {found}, not {wanted}"
    exact, _ = outcome(program, widen(arguments[2]))
    found = find_difference(expected, got, (arguments[0], arguments[1]), exact=exact)
    return found or (differ_in_zeros(expected, got) if name in EXACT else "")


def is_finite(number):
    """Whether a number is neither infinite nor nan."""
    return cmath.isfinite(number) if isinstance(number, complex) else math.isfinite(number)


def differ_in_zeros(expected, got):
    """Where a zero has another sign than eager's."""
    for one, other in zip(flatten(expected), flatten(got), strict=True):
        if isinstance(one, torch.Tensor) and one.dtype.is_floating_point:
            is_zero = (one == 0) & (other == 0)
            if bool((is_zero & (one.signbit() != other.signbit())).any()):
                return "the sign of a zero"
    return ""


def run_case(seed, only=""):
    """What differed in a case, with the case; "" where nothing did."""
    choose = random.Random(seed)
    name = choose.choice([each for each in OPERATIONS if only in each])
    dtype = choose.choices(TYPES, TYPE_WEIGHTS)[0]
    x = make_tensor(choose, dtype)
    is_open = choose.random() < 0.6
    numbers = choose.sample(ORDINARY, 2) if is_open else []
    numbers += choose.sample(SPECIAL, 3)
    fast = lamina.compile(OPERATIONS[name])
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in numbers:
            found = differ(name, fast, x, number)
            if found:
                return f"{name} of {dtype} {tuple(x.shape)}, {number!r} of {numbers}: {found}"
    return ""


if __name__ == "__main__":
    raise SystemExit(run_cases(__doc__, run_case, 5000, f"cases, {len(OPERATIONS)} operations"))
