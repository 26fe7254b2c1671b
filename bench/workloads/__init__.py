"""The list of workloads: 17 networks and the micro programs, each in the file of its family.

>>> from bench.workloads import get
>>> function, args, kwargs = get("bert").build()
"""

from __future__ import annotations

from collections.abc import Callable

from bench.workloads import bert, convolution, dlrm, gpt2, llama, lstm, micro, mlp, t5, unet, vit
from bench.workloads.workload import Example, Function, Inputs, Size, Workload, as_double, to_double

__all__ = [
    "MICRO",
    "NETWORKS",
    "WORKLOADS",
    "Example",
    "Inputs",
    "Size",
    "Workload",
    "as_double",
    "get",
    "to_double",
]

LONGER = (Size(1, 64), Size(2, 128), Size(3, 50))
IMAGES = (Size(2, 224), Size(1, 192))

NETWORKS = (
    Workload("bert", "network", bert.make_bert, bert.make_tokens, Size(1, 128), LONGER),
    Workload("distilbert", "network", bert.make_distilbert, bert.make_tokens, Size(1, 128), LONGER),
    Workload("gpt2", "network", gpt2.make_gpt2, gpt2.make_prompt, Size(1, 128), LONGER),
    Workload("gpt2-decode", "network", gpt2.make_gpt2_decode, gpt2.make_token, Size(1, 1)),
    Workload("llama", "network", llama.make_llama, llama.make_tokens, Size(1, 128), LONGER),
    Workload("llama-b8", "network", llama.make_llama, llama.make_tokens, Size(8, 128), (Size(3, 50),)),
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


def program(
    name: str, function: Function, make_inputs: Callable[[Size], Inputs], size: Size, variant: Size
) -> Workload:
    """A micro program: a plain function with one further size."""
    return Workload(name, "micro", lambda: function, make_inputs, size, (variant,))


ROWS_1024 = micro.same_shape(2, 1024)
PAIR = micro.same_shape(2)
LONG = Size(1, micro.CHAIN_LENGTH)

MICRO = (
    program("layer-norm", micro.layer_norm, micro.rows_and_weights(2, 1024), Size(1, 4096), Size(1, 1000)),
    program("softmax", micro.softmax, micro.make_scores, Size(1, 1024), Size(1, 333)),
    program("rms-norm", micro.rms_norm, micro.rows_and_weights(1, 4096), Size(1, 2048), Size(1, 77)),
    program("arithmetic-chain", micro.arithmetic_chain, PAIR, LONG, Size(1, 1001)),
    program("transcendental-chain", micro.transcendental_chain, PAIR, LONG, Size(1, 1001)),
    program("broadcast-chain", micro.broadcast_chain, micro.make_matrix, Size(1, 4096), Size(1, 301)),
    program("cross-entropy", micro.cross_entropy, micro.make_logits, Size(512, 32000), Size(37, 1000)),
    program("causal-attention", micro.causal_attention, micro.make_heads, Size(1, 1024), Size(1, 200)),
    program("swiglu-gate", micro.swiglu_gate, micro.same_shape(2, 5632), Size(1, 2048), Size(1, 33)),
    program("gelu", micro.gelu, micro.same_shape(1), Size(1, 8 * 1024 * 1024), Size(1, 1001)),
    Workload("add-norm", "micro", micro.make_add_norm, ROWS_1024, Size(1, 4096), (Size(1, 100),)),
    Workload(
        "norm-linear-gelu",
        "micro",
        micro.make_norm_linear_gelu,
        micro.same_shape(1, 2048),
        Size(1, 512),
        (Size(1, 100),),
    ),
    Workload("tiny-mlp", "micro", mlp.make_tiny_mlp, mlp.make_rows, Size(8, 16), (Size(3, 16),)),
    program("add-one", micro.add_one, micro.same_shape(1), Size(1, 8), Size(1, 5)),
)

WORKLOADS = {workload.name: workload for workload in (*NETWORKS, *MICRO)}


def get(name: str) -> Workload:
    """The workload of that name; KeyError lists the names there are."""
    if name not in WORKLOADS:
        raise KeyError(f"no workload {name!r}; there are: {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
