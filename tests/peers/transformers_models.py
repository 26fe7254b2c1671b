"""transformers' models, tiny and random: the benchmark list's classes, compiled, and every architecture, captured."""

from __future__ import annotations

import functools
import os
from typing import Any

import torch

from tests.peers.crawl import pass_through
from tests.peers.judging import Outcome, judge
from tests.peers.tiny_transformers import build

os.environ.setdefault("HF_HUB_OFFLINE", "1")

BENCHMARK = [
    "AlbertForMaskedLM",
    "AlbertForQuestionAnswering",
    "LongformerForMaskedLM",
    "BartForCausalLM",
    "BartForConditionalGeneration",
    "BertForMaskedLM",
    "BertForQuestionAnswering",
    "BlenderbotForCausalLM",
    "BlenderbotForConditionalGeneration",
    "BlenderbotSmallForCausalLM",
    "BlenderbotSmallForConditionalGeneration",
    "CamembertForMaskedLM",
    "DebertaForMaskedLM",
    "DebertaForQuestionAnswering",
    "DebertaV2ForMaskedLM",
    "DebertaV2ForQuestionAnswering",
    "DistilBertForMaskedLM",
    "DistilBertForQuestionAnswering",
    "GPT2LMHeadModel",
    "ElectraForCausalLM",
    "ElectraForQuestionAnswering",
    "GPT2ForSequenceClassification",
    "GPTJForCausalLM",
    "GPTJForQuestionAnswering",
    "GPTNeoForCausalLM",
    "GPTNeoForSequenceClassification",
    "FNetForMaskedLM",
    "LayoutLMForMaskedLM",
    "LayoutLMForSequenceClassification",
    "M2M100ForConditionalGeneration",
    "MBartForCausalLM",
    "MBartForConditionalGeneration",
    "MT5ForConditionalGeneration",
    "MegatronBertForCausalLM",
    "MegatronBertForQuestionAnswering",
    "MobileBertForMaskedLM",
    "MobileBertForQuestionAnswering",
    "OPTForCausalLM",
    "PLBartForCausalLM",
    "PLBartForConditionalGeneration",
    "PegasusForCausalLM",
    "PegasusForConditionalGeneration",
    "RobertaForCausalLM",
    "RobertaForQuestionAnswering",
    "T5ForConditionalGeneration",
    "TrOCRForCausalLM",
    "XGLMForCausalLM",
    "XLNetLMHeadModel",
    "ConvBertForMaskedLM",
    "LlamaForCausalLM",
    "Gemma2ForCausalLM",
    "Gemma3ForCausalLM",
    "WhisperForConditionalGeneration",
    "Qwen3ForCausalLM",
    "MistralForCausalLM",
    "GptOssForCausalLM",
]
"""The classes of the public benchmark's list (github.com/pytorch/pytorch, benchmarks/dynamo), by their own names."""


@functools.cache
def architectures() -> dict[str, Any]:
    """Base model classes by name, one an architecture that the automatic mapping knows."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    found: dict[str, Any] = {}
    for names in MODEL_MAPPING_NAMES.values():
        for name in (names,) if isinstance(names, str) else names:
            found[name] = name
    return found


def judge_architecture(name: str) -> Outcome:
    """The outcome of a base model's capture; its graphs run as they are."""
    return judge_name(name, pass_through)


def judge_name(name: str, backend: Any = None) -> Outcome:
    """The outcome of one model class."""
    import transformers

    transformers.logging.set_verbosity_error()
    kind = getattr(transformers, name)
    try:
        model, make = build(kind.config_class, kind)
    except Exception as error:
        return Outcome("skipped", reason=f"does not build: {error}"[:300])
    torch.manual_seed(0)
    return judge(model, lambda: ((), make()), backend)
