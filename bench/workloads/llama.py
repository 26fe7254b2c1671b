"""A Llama-style decoder: 4 layers, hidden 512, RMSNorm, rotary positions, SwiGLU; 128 tokens."""

from __future__ import annotations

from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM

from bench.workloads.workload import TakeOutput, finish, token_inputs

VOCABULARY = 32000

make_tokens = token_inputs(VOCABULARY)


def make_llama() -> nn.Module:
    """8 heads over 4 key-value heads, inner width 1376; returns the logits of every position."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=512,
        use_cache=False,
    )
    return finish(TakeOutput(LlamaForCausalLM(config), "logits"))
