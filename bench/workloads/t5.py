"""The encoder of T5-small, 128 tokens."""

from __future__ import annotations

from torch import nn
from transformers import T5Config, T5EncoderModel

from bench.workloads.workload import TakeOutput, finish, token_inputs

make_tokens = token_inputs(vocabulary=32128)


def make_t5_encoder() -> nn.Module:
    """6 layers, hidden 512, relative positions; returns the last hidden state."""
    config = T5Config(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, use_cache=False)
    return finish(TakeOutput(T5EncoderModel(config), "last_hidden_state"))
