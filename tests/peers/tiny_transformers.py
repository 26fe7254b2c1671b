"""Tiny random models of the transformers library: a configuration made small by rules, and inputs that its forward takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

MOST_PARAMETERS = 60_000_000
VOCABULARY = 128
BATCH, LENGTH = 2, 16

SIZES: dict[str, int] = {
    **dict.fromkeys(
        ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim", "embedding_size", "projection_dim",
         "encoder_hidden_dim", "decoder_hidden_dim", "emb_dim", "word_embed_proj_dim", "decoder_hidden_size",
         "encoder_hidden_size", "true_hidden_size", "embedding_dim", "attention_hidden_size", "vision_embed_dim"),
        64,
    ),
    **dict.fromkeys(
        ("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "dim_feedforward", "d_ff", "ffn_dim", "n_inner",
         "moe_intermediate_size", "shared_expert_intermediate_size", "decoder_intermediate_size", "mlp_dim",
         "ffn_hidden_size", "encoder_intermediate_size"),
        128,
    ),
    **dict.fromkeys(
        ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers", "depth",
         "num_encoder_layers", "num_decoder_layers", "num_hidden_groups", "decoder_num_layers",
         "encoder_num_layers", "num_block_records", "decoder_num_hidden_layers", "encoder_num_hidden_layers"),
        2,
    ),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "encoder_attention_heads", "decoder_attention_heads", "num_heads",
         "decoder_num_attention_heads", "encoder_num_attention_heads", "num_decoder_attention_heads"),
        4,
    ),
    **dict.fromkeys(("num_key_value_heads", "multi_query_group_num"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_dim", "v_head_dim", "kv_channels"), 16),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k"), 2),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "max_source_positions",
                     "max_target_positions", "n_ctx"), 128),
    "vocab_size": VOCABULARY,
    "image_size": 32,
    "patch_size": 8,
    "num_frames": 4,
    "tubelet_size": 2,
    "num_mel_bins": 16,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "num_queries": 8,
    "decoder_num_queries": 8,
}  # fmt: skip
"""The value that an integer attribute of a configuration gets."""
HEAD_SIZES = (
    "head_dim",
    "rotary_dim",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "kv_channels",
    "d_kv",
)
"""What the second attempt leaves as it is, with a hidden size of 512: sections of rotary embeddings must fit."""
LAYER_LISTS = ("layer_types", "attention_layers", "mlp_layer_types")


def shrink(kind: type, level: int) -> dict[str, Any]:
    """Keyword arguments that make a configuration of class `kind` small; a higher level changes less."""
    config = kind()
    changed: dict[str, Any] = {}
    for name, sub_kind in (getattr(kind, "sub_configs", None) or {}).items():
        sub = getattr(config, name, None)
        if sub is None or not hasattr(sub, "to_dict") or type(sub).__name__ == "AutoConfig":
            continue
        changed[name] = shrink_instance(type(sub), sub, level)
        if sub_kind.__name__ == "AutoConfig":
            changed[name]["model_type"] = sub.model_type
    changed.update(shrink_instance(kind, config, level))
    return changed


def shrink_instance(kind: type, config: Any, level: int) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    nested = getattr(kind, "sub_configs", None) or {}
    for name, value in vars(config).items():
        if name in nested or name.startswith("_") or isinstance(value, bool):
            continue
        if isinstance(value, int) and name in SIZES and level < 2 and not (level and name in HEAD_SIZES):
            changed[name] = min(value, 512 if level and SIZES[name] == 64 else SIZES[name])
            if name == "num_key_value_heads" and value == getattr(config, "num_attention_heads", None):
                changed[name] = 4
        elif isinstance(value, int) and name in SIZES and "layer" in name:
            changed[name] = 2
        elif name.endswith(("_token_id", "_token_index")) and is_outside_vocabulary(value):
            changed[name] = 3 + sum(ord(letter) for letter in name) % (VOCABULARY - 8)
        elif name == "pad_token_id" and value is None:
            changed[name] = 0
        elif name == "rotary_dim" and level == 0:
            changed[name] = 8
        elif name == "image_size" and isinstance(value, list | tuple) and level < 1:
            changed[name] = [64] * len(value)
        elif name in LAYER_LISTS and isinstance(value, list):
            changed[name] = pick_layers(value)
        elif name in ("depths", "num_blocks") and isinstance(value, list | tuple) and level < 2:
            changed[name] = [1] * len(value)
        elif (
            name in ("hidden_sizes", "embed_dims", "encoder_hidden_sizes")
            and isinstance(value, list | tuple)
            and level < 1
        ):
            changed[name] = [16 * (index + 1) for index in range(len(value))]
    return changed


def is_outside_vocabulary(value: Any) -> bool:
    return any(
        isinstance(item, int) and item >= VOCABULARY
        for item in (value if isinstance(value, list) else [value])
    )


def pick_layers(kinds: list[Any]) -> list[Any]:
    """Two layers, of two kinds where there are."""
    others = [kind for kind in kinds if kind != kinds[0]]
    return [kinds[0], others[0] if others else kinds[0]]


def inputs_for(model: Any) -> Iterator[Callable[[], dict[str, Any]]]:
    """Makers of keyword arguments that the model's forward may take, likeliest first."""
    config, names = model.config, set(inspect.signature(model.forward).parameters)
    for builder in (
        text_inputs,
        image_inputs,
        both_inputs,
        video_inputs,
        wave_inputs,
        spectrum_inputs,
        box_inputs,
    ):
        made = builder(config, names, model)
        if made:
            yield made


def vocabulary_of(config: Any) -> int:
    found = getattr(config.get_text_config(), "vocab_size", None) or getattr(config, "vocab_size", None)
    return min(found, VOCABULARY) if isinstance(found, int) and found > 8 else VOCABULARY


def tokens(config: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    special = {value for name, value in vars(config).items() if name.endswith(("_token_id", "_token_index"))}
    allowed = [index for index in range(2, vocabulary_of(config)) if index not in special]
    return torch.tensor(allowed)[torch.randint(0, len(allowed), (BATCH, LENGTH), generator=generator)]


def picture(config: Any, frames: int = 0) -> torch.Tensor:
    vision = getattr(config, "vision_config", None) or getattr(config, "backbone_config", None) or config
    size = getattr(vision, "image_size", None) or getattr(config, "image_size", None) or 64
    sides = size if isinstance(size, list | tuple) else (size, size)
    channels = getattr(vision, "num_channels", None) or getattr(vision, "in_channels", None) or 3
    shape = (BATCH, frames, channels, *sides) if frames else (BATCH, channels, *sides)
    return torch.randn(shape, generator=torch.Generator().manual_seed(2))


def text_inputs(config: Any, names: set[str], model: Any) -> Any:
    if "input_ids" not in names:
        return None

    def make() -> dict[str, Any]:
        found = {"input_ids": tokens(config)}
        if "decoder_input_ids" in names:
            found["decoder_input_ids"] = tokens(config)
        if "labels" in names and type(model).__name__.endswith(("LMHeadModel", "ForMaskedLM", "ForCausalLM")):
            found["labels"] = tokens(config)
        return found

    return make


def image_inputs(config: Any, names: set[str], model: Any) -> Any:
    return (lambda: {"pixel_values": picture(config)}) if "pixel_values" in names else None


def both_inputs(config: Any, names: set[str], model: Any) -> Any:
    if not {"pixel_values", "input_ids"} <= names:
        return None
    return lambda: {"input_ids": tokens(config), "pixel_values": picture(config)}


def video_inputs(config: Any, names: set[str], model: Any) -> Any:
    for name in ("pixel_values_videos", "pixel_values"):
        if name in names:
            return lambda: {name: picture(config, getattr(config, "num_frames", None) or 4)}
    return None


def wave_inputs(config: Any, names: set[str], model: Any) -> Any:
    if "input_values" not in names:
        return None
    return lambda: {"input_values": torch.randn(BATCH, 3200, generator=torch.Generator().manual_seed(3))}


def spectrum_inputs(config: Any, names: set[str], model: Any) -> Any:
    for name in ("input_features", "input_values"):
        if name in names:
            break
    else:
        return None
    bins = getattr(config, "num_mel_bins", None) or getattr(config, "feature_size", None) or 80
    length = 2 * (getattr(config, "max_source_positions", None) or 32)

    def make() -> dict[str, Any]:
        is_whisper = getattr(config, "model_type", "") == "whisper"
        shape = (BATCH, bins, length) if is_whisper else (BATCH, 64, bins)
        found = {name: torch.randn(shape, generator=torch.Generator().manual_seed(4))}
        if "decoder_input_ids" in names:
            found["decoder_input_ids"] = tokens(config)
        return found

    return make


def box_inputs(config: Any, names: set[str], model: Any) -> Any:
    if not {"input_ids", "bbox"} <= names:
        return None
    return lambda: {"input_ids": tokens(config), "bbox": torch.zeros(BATCH, LENGTH, 4, dtype=torch.long)}


def build(config_kind: type, make_model: Callable[[Any], Any]) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """(model in eval mode, maker of its inputs): the first size and inputs that eager takes."""
    reasons = []
    for level in (0, 1, 2):
        try:
            config = config_kind(**shrink(config_kind, level))
            with torch.device("meta"):
                size = sum(parameter.numel() for parameter in make_model(config).parameters())
            if size > MOST_PARAMETERS:
                raise ValueError(f"{size} parameters")
            torch.manual_seed(0)
            model = make_model(config_kind(**shrink(config_kind, level))).eval()
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {str(error)[:100]}")
            continue
        for make in inputs_for(model):
            try:
                with torch.no_grad():
                    model(**make())
            except Exception as error:
                reasons.append(f"{type(error).__name__}: {str(error)[:100]}")
                continue
            return model, make
    raise ValueError(" | ".join(reasons))
