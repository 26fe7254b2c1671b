"""Whole networks in small sizes: taken in one graph, with eager's result and guards that hold."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from lamina.capture import trace
from tests.capture.equality import differ

transformers = pytest.importorskip("transformers")
WIDTH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
IMAGE = {"image_size": 32, "patch_size": 8}


def tokens(batch=2, length=9):
    return torch.randint(0, 100, (batch, length), generator=torch.Generator().manual_seed(0))


def picture(batch=2, side=32):
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(0))


def make_bert():
    return transformers.BertModel(transformers.BertConfig(**WIDTH)), (tokens(),), {}


def make_bert_with_mask():
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 5:] = 0
    return (
        transformers.BertModel(transformers.BertConfig(**WIDTH)),
        (),
        {"input_ids": tokens(), "attention_mask": mask},
    )


def make_distilbert():
    configuration = transformers.DistilBertConfig(
        dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=100
    )
    return transformers.DistilBertModel(configuration), (tokens(),), {}


def gpt2_configuration():
    return transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=64, bos_token_id=1, eos_token_id=2
    )


def make_gpt2():
    return transformers.GPT2LMHeadModel(gpt2_configuration()), (tokens(),), {}


def make_gpt2_decode():
    configuration = gpt2_configuration()
    model = transformers.GPT2LMHeadModel(configuration).eval()
    cache = transformers.StaticCache(config=configuration, max_cache_len=32)
    with torch.no_grad():
        model(tokens(1, 5), past_key_values=cache, use_cache=True)
    return model, (tokens(1, 1),), {"past_key_values": cache, "use_cache": True}


def llama_configuration():
    return transformers.LlamaConfig(**WIDTH, num_key_value_heads=2)


def make_llama():
    return transformers.LlamaForCausalLM(llama_configuration()), (tokens(),), {"use_cache": False}


def make_llama_growing_cache():
    model = transformers.LlamaForCausalLM(llama_configuration()).eval()
    cache = transformers.DynamicCache(config=llama_configuration())
    with torch.no_grad():
        model(tokens(1, 5), past_key_values=cache, use_cache=True)
    return model, (tokens(1, 1),), {"past_key_values": cache, "use_cache": True}


def make_t5_encoder():
    configuration = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    )
    return transformers.T5EncoderModel(configuration), (tokens(),), {}


def make_vit():
    return transformers.ViTModel(transformers.ViTConfig(**{**WIDTH, **IMAGE})), (picture(),), {}


def make_resnet(kind):
    configuration = transformers.ResNetConfig(
        layer_type=kind, embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2]
    )
    return transformers.ResNetForImageClassification(configuration), (picture(),), {}


def make_convnext():
    configuration = transformers.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 2], num_stages=2)
    return transformers.ConvNextForImageClassification(configuration), (picture(),), {}


def make_mobilenet():
    return (
        transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config(depth_multiplier=0.25)),
        (picture(),),
        {},
    )


def make_lstm():
    return nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), (torch.randn(2, 5, 8),), {}


def make_gru_with_state():
    return nn.GRU(8, 16, 2), (torch.randn(5, 2, 8), torch.zeros(2, 2, 16)), {}


def make_encoder_layers():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 5, 16),), {}


MAKERS = {
    "bert": make_bert,
    "bert-mask": make_bert_with_mask,
    "distilbert": make_distilbert,
    "gpt2": make_gpt2,
    "gpt2-decode": make_gpt2_decode,
    "llama": make_llama,
    "llama-cache": make_llama_growing_cache,
    "t5": make_t5_encoder,
    "vit": make_vit,
    "resnet-basic": lambda: make_resnet("basic"),
    "resnet-bottleneck": lambda: make_resnet("bottleneck"),
    "convnext": make_convnext,
    "mobilenet": make_mobilenet,
    "lstm": make_lstm,
    "gru": make_gru_with_state,
    "transformer-encoder": make_encoder_layers,
}


@pytest.mark.parametrize("name", MAKERS)
def test_model_is_taken_whole(name):
    torch.manual_seed(0)
    model, args, kwargs = MAKERS[name]()
    model.eval()
    twin_args, twin_kwargs = copy.deepcopy((args, kwargs))
    with torch.no_grad():
        captured = trace(model, args, kwargs)
        captured.graph_module.graph.lint()
        assert captured.check(args, kwargs), captured.explain_failure(args, kwargs)
        got = captured.call(args, kwargs)
        expected = model(*twin_args, **twin_kwargs)
    assert not differ(got, expected)
    assert not differ((args, kwargs), (twin_args, twin_kwargs))


def test_static_cache_keeps_one_capture_over_steps():
    torch.manual_seed(0)
    model, args, kwargs = make_gpt2_decode()
    twin_args, twin_kwargs = copy.deepcopy((args, kwargs))
    with torch.no_grad():
        captured = trace(model, args, kwargs)
        for _ in range(3):
            assert captured.check(args, kwargs), captured.explain_failure(args, kwargs)
            got = captured.call(args, kwargs)
            assert not differ(got.logits, model(*twin_args, **twin_kwargs).logits)


@pytest.mark.parametrize("name", ["bert", "resnet-basic", "lstm"])
def test_training_step_has_eagers_gradients(name):
    torch.manual_seed(0)
    model, args, kwargs = MAKERS[name]()
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    twin = copy.deepcopy(model)
    captured = trace(model, args, kwargs)

    def total(output):
        values = output if isinstance(output, tuple) else tuple(output.values())
        return sum(value.float().pow(2).sum() for value in values if isinstance(value, torch.Tensor))

    total(captured.call(args, kwargs)).backward()
    total(twin(*args, **kwargs)).backward()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert (mine.grad is None) == (other.grad is None)
        assert mine.grad is None or torch.equal(mine.grad, other.grad)
