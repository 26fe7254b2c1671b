"""Packed sequences: what runs over them takes as many steps as the values of their batch sizes say."""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.signals import stop

PACKS = frozenset({"_pack_padded_sequence", "_pad_packed_sequence"})
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
WEIGHTS = 3
"""Where the list of weights is among the arguments if the sequence is packed; one earlier if it is padded."""


def check_packed(name: str, arguments: tuple[Any, ...]) -> None:
    """Stop at an operation that reads a packed sequence's batch sizes, or the lengths to pack by."""
    name = name.partition(".")[0]
    is_recurrent = name in RECURRENT and len(arguments) > WEIGHTS
    if name in PACKS or (is_recurrent and isinstance(arguments[WEIGHTS], (list, tuple))):
        stop(
            "data-dependent",
            f"{name} runs over a packed sequence: its steps depend on the values of a tensor",
            "keep the sequences padded, with a mask, or pack them outside the compiled function",
        )
