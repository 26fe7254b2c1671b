"""Small transformers with changing batch and sequence length: two captures at most, every result eager's."""

from __future__ import annotations

import pytest
import torch

import lamina

transformers = pytest.importorskip("transformers")
SIZES = [(2, 8), (3, 12), (4, 12), (2, 7), (5, 33), (8, 8)]
WIDTH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}


def make_bert():
    return transformers.BertModel(transformers.BertConfig(**WIDTH))


def make_gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            n_embd=32, n_layer=2, n_head=4, vocab_size=100, n_positions=64, bos_token_id=1, eos_token_id=2
        )
    )


def make_llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**WIDTH, num_key_value_heads=2))


def make_t5_encoder():
    return transformers.T5EncoderModel(
        transformers.T5Config(d_model=32, num_layers=2, num_heads=4, d_ff=64, vocab_size=100, d_kv=8)
    )


def run_graph(graph, inputs):
    return graph.forward


@pytest.mark.parametrize(
    "make", [make_bert, make_gpt2, make_llama, make_t5_encoder], ids=lambda each: each.__name__
)
@torch.no_grad()
def test_batch_and_length_vary(make):
    torch.manual_seed(0)
    model = make().eval()
    compiled = lamina.compile(model, backend=run_graph)
    start = lamina.counters()["graphs"]
    for shape in SIZES:
        tokens, mask = torch.randint(0, 100, shape), torch.ones(shape, dtype=torch.long)
        mask[0, shape[1] // 2 :] = 0
        arguments = {"input_ids": tokens, "attention_mask": mask, "use_cache": False}
        if make is make_t5_encoder:
            del arguments["use_cache"]
        torch.testing.assert_close(compiled(**arguments)[0], model(**arguments)[0])
    assert lamina.counters()["graphs"] - start <= 2


@torch.no_grad()
def test_decoding_with_a_growing_cache():
    torch.manual_seed(0)
    model = make_llama().eval()
    compiled = lamina.compile(model, backend=run_graph)
    results = []
    for run in (model, compiled):
        start = lamina.counters()["graphs"]
        cache, tokens = transformers.DynamicCache(config=model.config), torch.tensor([[1, 2, 3, 4]])
        for _ in range(8):
            logits = run(tokens, past_key_values=cache, use_cache=True).logits
            results.append(logits)
            tokens = logits[:, -1:].argmax(-1)
    torch.testing.assert_close(results[8:], results[:8])
    assert lamina.counters()["graphs"] - start <= 3
