"""The list of workloads: 17 networks and the micro programs, each in the file of its family.

>>> from bench.workloads import get
>>> function, args, kwargs = get("bert").build()
"""

from __future__ import annotations

from bench.workloads import bert, convolution, dlrm, gpt2, llama, lstm, micro, mlp, t5, unet, vit
from bench.workloads.workload import Example, Inputs, Size, Workload, to_double

__all__ = ["MICRO", "NETWORKS", "WORKLOADS", "Example", "Inputs", "Size", "Workload", "get", "to_double"]

LONGER = (Size(1, 64), Size(2, 128), Size(3, 50))
IMAGES = (Size(2, 224), Size(1, 192))

NETWORKS = (
    Workload("bert", "network", bert.make_bert, bert.make_tokens, Size(1, 128), LONGER),
    Workload("distilbert", "network", bert.make_distilbert, bert.make_tokens, Size(1, 128), LONGER),
    Workload("gpt2", "network", gpt2.make_gpt2, gpt2.make_prompt, Size(1, 128), LONGER),
    Workload("gpt2-decode", "network", gpt2.make_gpt2_decode, gpt2.make_token, Size(1, 1)),
    Workload("llama", "network", llama.make_llama, llama.make_tokens, Size(1, 128), LONGER),
    Workload("llama-b8", "network", llama.make_llama, llama.make_tokens, Size(8, 128), LONGER),
    Workload("t5-encoder", "network", t5.make_t5_encoder, t5.make_tokens, Size(1, 128), LONGER),
    Workload("vit", "network", vit.make_vit, vit.make_images, Size(1, 224), (Size(2, 224), Size(5, 224))),
    Workload("resnet18", "network", convolution.make_resnet18, convolution.make_images, Size(1, 224), IMAGES),
    Workload("resnet50", "network", convolution.make_resnet50, convolution.make_images, Size(1, 224), IMAGES),
    Workload("convnext", "network", convolution.make_convnext, convolution.make_images, Size(1, 224), IMAGES),
    Workload(
        "mobilenetv2", "network", convolution.make_mobilenetv2, convolution.make_images, Size(1, 224), IMAGES
    ),
    Workload("dlrm", "network", dlrm.make_dlrm, dlrm.make_features, Size(256, 1), (Size(64, 1), Size(1, 1))),
    Workload("mlp", "network", mlp.make_mlp, mlp.make_rows, Size(64, 784), (Size(1, 784), Size(17, 784))),
    Workload("unet", "network", unet.make_unet, unet.make_images, Size(1, 64), (Size(2, 64), Size(1, 48))),
    Workload("lstm", "network", lstm.make_lstm, lstm.make_steps, Size(1, 64), (Size(2, 64), Size(1, 33))),
    Workload("lstm-b8", "network", lstm.make_lstm, lstm.make_steps, Size(8, 64), (Size(2, 64), Size(8, 33))),
)

MICRO = (
    Workload(
        "layer-norm", "micro", lambda: micro.layer_norm, micro.rows_and_weights(2, 1024), Size(1, 4096), (Size(1, 1000),)
    ),
    Workload("softmax", "micro", lambda: micro.softmax, micro.make_scores, Size(1, 1024), (Size(1, 333),)),
    Workload(
        "rms-norm", "micro", lambda: micro.rms_norm, micro.rows_and_weights(1, 4096), Size(1, 2048), (Size(1, 77),)
    ),
    Workload(
        "arithmetic-chain", "micro", lambda: micro.arithmetic_chain, micro.same_shape(2), Size(1, micro.CHAIN_LENGTH),
        (Size(1, 1001),),
    ),
    Workload(
        "transcendental-chain", "micro", lambda: micro.transcendental_chain, micro.same_shape(2),
        Size(1, micro.CHAIN_LENGTH), (Size(1, 1001),),
    ),
    Workload(
        "broadcast-chain", "micro", lambda: micro.broadcast_chain, micro.make_matrix, Size(1, 4096), (Size(1, 301),)
    ),
    Workload(
        "cross-entropy", "micro", lambda: micro.cross_entropy, micro.make_logits, Size(512, 32000), (Size(37, 1000),)
    ),
    Workload(
        "causal-attention", "micro", lambda: micro.causal_attention, micro.make_heads, Size(1, 1024), (Size(1, 200),)
    ),
    Workload(
        "swiglu-gate", "micro", lambda: micro.swiglu_gate, micro.same_shape(2, 5632), Size(1, 2048), (Size(1, 33),)
    ),
    Workload("gelu", "micro", lambda: micro.gelu, micro.same_shape(1), Size(1, 8 * 1024 * 1024), (Size(1, 1001),)),
    Workload("add-norm", "micro", micro.make_add_norm, micro.same_shape(2, 1024), Size(1, 4096), (Size(1, 100),)),
    Workload(
        "norm-linear-gelu", "micro", micro.make_norm_linear_gelu, micro.same_shape(1, 1024), Size(1, 1024),
        (Size(1, 100),),
    ),
    Workload("tiny-mlp", "micro", mlp.make_tiny_mlp, mlp.make_rows, Size(8, 16), (Size(3, 16),)),
    Workload("add-one", "micro", lambda: micro.add_one, micro.same_shape(1), Size(1, 8), (Size(1, 5),)),
)  # fmt: skip

WORKLOADS = {workload.name: workload for workload in (*NETWORKS, *MICRO)}


def get(name: str) -> Workload:
    """The workload of that name; KeyError lists the names there are."""
    if name not in WORKLOADS:
        raise KeyError(f"no workload {name!r}; there are: {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
