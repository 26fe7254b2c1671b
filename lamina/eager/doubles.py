"""Functions of torch's whose float is a C double, which cannot vary on its way through their schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Formula = Callable[[Any], Any]
"""What an operation is given of a number."""


def as_it_is(number: Any) -> Any:
    return number


def rest(number: Any) -> Any:
    return 1.0 - number


class Double(NamedTuple):
    """A parameter, and the arguments of the ATen operations behind the function that are made of it.

    arrivals: an argument's name with what it is; nothing else of these operations comes from the parameter.
    """

    position: int
    parameter: str
    arrivals: tuple[tuple[str, Formula], ...]

    def find(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The parameter's value in a call; None where it is not given."""
        return args[self.position] if len(args) > self.position else kwargs.get(self.parameter)


def plain(position: int, parameter: str, argument: str | None = None) -> Double:
    """A parameter that one kind of argument is."""
    return Double(position, parameter, ((argument or parameter, as_it_is),))


KEYWORD_ONLY = 99
DROPOUT = (Double(1, "p", (("p", as_it_is), ("p", rest), ("other", rest))),)
BATCH_NORM = (plain(7, "eps"), plain(6, "momentum"))
DOUBLES: Mapping[str, tuple[Double, ...]] = {
    "batch_norm": BATCH_NORM,
    "bernoulli": (plain(1, "p"),),
    "cdist": (plain(2, "p"),),
    "cosine_embedding_loss": (plain(3, "margin", "other"),),
    "cosine_similarity": (plain(3, "eps", "s"),),
    "cross_entropy": (plain(7, "label_smoothing"),),
    "dropout": DROPOUT,
    "dropout1d": DROPOUT,
    "dropout2d": DROPOUT,
    "dropout3d": DROPOUT,
    "feature_dropout": DROPOUT,
    "dist": (plain(2, "p"),),
    "float_power": (plain(1, "exponent"),),
    "group_norm": (plain(4, "eps"),),
    "hinge_embedding_loss": (plain(2, "margin", "fill_value"),),
    "huber_loss": (plain(3, "delta"),),
    "instance_norm": BATCH_NORM,
    "isclose": (plain(2, "rtol", "other"), plain(3, "atol", "other")),
    "layer_norm": (plain(4, "eps"),),
    "linalg_vector_norm": (plain(1, "ord"),),
    "logit": (plain(1, "eps"),),
    "margin_ranking_loss": (plain(3, "margin", "other"),),
    "nan_to_num": (plain(1, "nan"), plain(2, "posinf"), plain(3, "neginf")),
    "norm": (plain(1, "p", "ord"),),
    "normalize": (plain(1, "p", "ord"), plain(3, "eps", "min")),
    "pad": (plain(3, "value"),),
    "pairwise_distance": (plain(3, "eps", "other"),),
    "poisson_nll_loss": (plain(5, "eps", "other"),),
    "quantile": (plain(1, "q", "s"),),
    "rms_norm": (plain(3, "eps"),),
    "scaled_dot_product_attention": (plain(4, "dropout_p"), plain(6, "scale")),
    "smooth_l1_loss": (plain(5, "beta"),),
    "trapezoid": (plain(KEYWORD_ONLY, "dx", "other"),),
    "triplet_margin_loss": (plain(3, "margin", "other"),),
}
"""By the name of the function in torch or torch.nn.functional, or of the method."""


OF_COMPLEX = dict.fromkeys(
    ("add", "iadd", "sub", "isub", "mul", "imul", "div", "truediv", "itruediv"),
    (plain(0, "number", "other"), plain(1, "other")),
)
"""Operations of complex tensors, which make a complex number of a float."""


def doubles_of(name: str) -> tuple[Double, ...]:
    """Those that a function or method takes, in place or not."""
    return DOUBLES.get(name.removesuffix("_"), ())
