"""GPT-2 (124M): a whole prompt of 128 tokens, and one decoded token after a prompt, with a static cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, StaticCache
from transformers.cache_utils import StaticLayer

from bench.workloads.workload import Inputs, Size, TakeOutput, finish, token_inputs

VOCABULARY = 50257
CACHE_LENGTH = 128
PROMPT_LENGTH = 100

make_prompt = token_inputs(VOCABULARY)


def make_gpt2() -> nn.Module:
    """12 layers, hidden 768; returns the logits of every position."""
    return finish(TakeOutput(GPT2LMHeadModel(GPT2Config(use_cache=False)), "logits"))


class DecodeStep(nn.Module):
    """One token after a prompt that is already in the cache; each call decodes the same position again."""

    def __init__(self, model: GPT2LMHeadModel, batch: int) -> None:
        super().__init__()
        self.model = model
        self.cache = StaticCache(config=model.config, max_cache_len=CACHE_LENGTH)
        with torch.no_grad():
            self.model(torch.randint(0, VOCABULARY, (batch, PROMPT_LENGTH)), cache=self.cache, use_cache=True)

    def layers(self) -> list[StaticLayer]:
        """The cache of each layer: keys, values and how many tokens they hold."""
        return [layer for layer in self.cache.layers if isinstance(layer, StaticLayer)]

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        for layer in self.layers():
            layer.cumulative_length.fill_(PROMPT_LENGTH)
        logits: torch.Tensor = self.model(token, cache=self.cache, use_cache=True).logits
        return logits

    def _apply(self, convert: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> DecodeStep:
        # The cache's tensors are no buffers: without this `module.double()` would leave them in float32.
        super()._apply(convert, recurse)  # type: ignore[no-untyped-call]
        for layer in self.layers():
            assert layer.keys is not None and layer.values is not None
            layer.keys, layer.values = convert(layer.keys), convert(layer.values)
        return self


def make_gpt2_decode() -> nn.Module:
    """A decode step for one sequence; returns the logits of the new token."""
    model = GPT2LMHeadModel(GPT2Config())
    finish(model)
    return finish(DecodeStep(model, batch=1))


def make_token(size: Size) -> Inputs:
    """The last token of each sequence, (batch, 1)."""
    return Inputs((torch.randint(0, VOCABULARY, (size.batch, 1)),), {})
