"""Functions of torch's whose float is a C double, which cannot vary on its way through their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Double(NamedTuple):
    """A parameter, and the argument of the ATen operation that takes it as it is, and nothing else of it."""

    position: int
    parameter: str
    argument: str

    def find(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The parameter's value in a call; None where it is not given."""
        return args[self.position] if len(args) > self.position else kwargs.get(self.parameter)


DOUBLES: Mapping[str, Double] = {
    "batch_norm": Double(7, "eps", "eps"),
    "group_norm": Double(4, "eps", "eps"),
    "huber_loss": Double(3, "delta", "delta"),
    "layer_norm": Double(4, "eps", "eps"),
    "rms_norm": Double(3, "eps", "eps"),
    "smooth_l1_loss": Double(5, "beta", "beta"),
}
"""By the name of the function in torch.nn.functional."""
