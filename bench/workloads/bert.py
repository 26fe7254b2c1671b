"""BERT-base and DistilBERT encoders, 128 tokens."""

from __future__ import annotations

from torch import nn
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

from bench.workloads.workload import TakeOutput, finish, token_inputs

make_tokens = token_inputs(vocabulary=30522)


def make_bert() -> nn.Module:
    """12 layers, hidden 768; returns the last hidden state."""
    return finish(TakeOutput(BertModel(BertConfig(), add_pooling_layer=False), "last_hidden_state"))


def make_distilbert() -> nn.Module:
    """6 layers, hidden 768; returns the last hidden state."""
    return finish(TakeOutput(DistilBertModel(DistilBertConfig()), "last_hidden_state"))
