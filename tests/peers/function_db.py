"""torch's databases of programs around operators: custom autograd functions, custom operators, higher-order ones.

Not in one graph are functions whose forward is computed by NumPy, a loop whose results grow with its rounds
(`while_loop_stack_output`), the backward of `flex_attention`, which asks for torch's dispatch keys, and
`local_map_hop`, whose program traces a module.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.autograd_function_db import autograd_function_db
from torch.testing._internal.custom_op_db import custom_op_db
from torch.testing._internal.hop_db import hop_db

from tests.parity.compare import copy_arguments
from tests.peers.judging import Outcome, judge, worst

DATABASES = {"autograd": autograd_function_db, "custom": custom_op_db, "hop": hop_db}


@functools.cache
def entries() -> dict[str, Any]:
    """Operators by database, name and variant."""
    found: dict[str, Any] = {}
    for database, infos in DATABASES.items():
        for info in infos:
            variant = f".{info.variant_test_name}" if info.variant_test_name else ""
            found[f"{database}/{info.name}{variant}"] = info
    return found


def samples(name: str) -> Iterator[Any]:
    """(args, kwargs) of each sample of float32, or of the first dtype there is."""
    info = entries()[name]
    dtype = torch.float32 if torch.float32 in info.dtypes else next(iter(info.dtypes), torch.float32)
    torch.manual_seed(0)
    for sample in info.sample_inputs("cpu", dtype, requires_grad=False):
        yield (sample.input, *sample.args), dict(sample.kwargs)


def judge_function(name: str, most_samples: int = 0, backend: Any = None) -> Outcome:
    """The first outcome that is not `whole`, over the samples that eager takes."""
    function = entries()[name].op
    program = functools.partial(call_function, function)
    chosen = itertools.islice(samples(name), most_samples or None)
    return worst(judge(program, functools.partial(copy_arguments, call), backend) for call in chosen)


def call_function(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
