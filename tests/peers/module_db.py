"""torch's own database of modules (`torch.testing._internal.common_modules`): names, calls, judgement.

Every sample of every module is judged in training and eval mode. Not in one graph: lazy modules, whose first call makes
their parameters; batch norms without a momentum, which divide by a count that they keep in a tensor; CTCLoss and
TransformerEncoder, which look at lengths and masks.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_utils import freeze_rng_state

from tests.parity.compare import copy_arguments
from tests.peers.judging import NO_SAMPLE, Outcome, judge, worst


@functools.cache
def entries() -> dict[str, Any]:
    """The database by name."""
    return {info.name: info for info in module_db}


def samples(name: str) -> Iterator[tuple[torch.nn.Module, Any]]:
    """(module, call) of each sample of float32, in eval mode and then in training mode."""
    info = entries()[name]
    dtype = torch.float32 if torch.float32 in info.dtypes else info.dtypes[0]
    for training in (False, True):
        with freeze_rng_state():
            torch.manual_seed(0)
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=dtype, requires_grad=False, training=training
            )
        for sample in inputs:
            if sample.forward_input is None:
                continue
            torch.manual_seed(0)
            try:
                module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            except Exception:
                continue
            if dtype is not torch.float32:
                module = module.to(dtype)
            module.train(training)
            yield module, (sample.forward_input.args, sample.forward_input.kwargs)


def judge_module(name: str, most_samples: int = 0, backend: Any = None) -> Outcome:
    """The first outcome that is not `whole`, over the samples that eager takes."""
    chosen = itertools.islice(samples(name), most_samples or None)
    outcomes = (judge(module, functools.partial(copy_arguments, call), backend) for module, call in chosen)
    return worst(outcomes, NO_SAMPLE)
