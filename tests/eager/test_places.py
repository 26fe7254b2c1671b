"""An index out of range, and a source that does not fit its slice, are eager's errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lamina

CALLS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "select": lambda x, k: x.select(1, k) + 1,
    "select of a result": lambda x, k: (x * 2).select(-1, k).exp(),
    "select_copy": lambda x, k: torch.select_copy(x, 1, k),
    "select_scatter": lambda x, k: torch.select_scatter(x, x.new_zeros(6), 1, k) + 1,
    "slice_scatter": lambda x, k: torch.slice_scatter(x, x.new_zeros(6, 2), 1, 0, k) + 1,
    "filled": lambda x, k: (x * 1).select(1, k).fill_(1),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_errors_and_results_are_eagers(name: str, dynamic: bool | None) -> None:
    function = CALLS[name]
    fast = lamina.compile(function, dynamic=dynamic)
    for k in (2, 5, 2, -4, -2, 3):
        x = torch.arange(18.0).reshape(6, 3)
        try:
            expected = function(x, k)
        except Exception as error:
            with pytest.raises(type(error)) as got:
                fast(x, k)
            assert str(got.value) == str(error)
        else:
            torch.testing.assert_close(fast(x, k), expected)
