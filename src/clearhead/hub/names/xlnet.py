"""XLNet as transformers saves it: its matrices in three dimensions, (width, heads, head width)."""

from typing import Any

from torch import Tensor

from clearhead.errors import require
from clearhead.hub.names.table import Names

_ATTENTION = "rel_attn"
_QUERY = "transformer.mask_emb"


def read_config(content: dict[str, Any]) -> dict[str, Any]:
    """Look that a head's width is the one that fits; it is not ours to choose."""
    content = dict(content)
    width, heads, share = (content.get(name) for name in ("d_model", "n_head", "d_head"))
    fits = not (isinstance(width, int) and isinstance(heads, int) and share is not None) or width == heads * share
    require(fits, f"d_head = {share!r} is not supported; clearhead computes d_model {width} / n_head {heads}")
    content.pop("d_head", None)
    return content


def names(heads: int) -> Names:
    """The table of a configuration with so many heads."""

    def flat(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Make linear maps of their matrices: what goes in lies in the second dimension."""
        found = {}
        for name, tensor in tensors.items():
            leaf = name.rpartition(".")[2]
            if name == _QUERY:
                found[name] = tensor.flatten()
            elif f".{_ATTENTION}." in name and leaf in "qkvr" and tensor.dim() == 3:
                found[f"{name}.weight"] = tensor.flatten(1).mT.contiguous()
            elif f".{_ATTENTION}." in name and leaf == "o" and tensor.dim() == 3:
                found[f"{name}.weight"] = tensor.flatten(1)
            else:
                found[name] = tensor
        return found

    def folded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The inverse of `flat`."""
        found = {}
        for name, tensor in tensors.items():
            owner, leaf = name.removesuffix(".weight"), name.removesuffix(".weight").rpartition(".")[2]
            if name == _QUERY:
                found[name] = tensor[None, None]
            elif f".{_ATTENTION}." in name and leaf in "qkvr" and owner != name:
                found[owner] = tensor.mT.unflatten(1, (heads, -1)).contiguous()
            elif f".{_ATTENTION}." in name and leaf == "o":
                found[owner] = tensor.unflatten(1, (heads, -1))
            else:
                found[name] = tensor
        return found

    attention = f"layer.{{}}.{_ATTENTION}"
    summary = {"pooler.dense": "sequence_summary.summary", "classifier": "logits_proj"}
    return Names(
        prefix="transformer",
        encoder={
            "embeddings.token": "word_embedding",
            "query": "mask_emb",
            "blocks.{}.attention.query": f"{attention}.q",
            "blocks.{}.attention.key_value": (f"{attention}.k", f"{attention}.v"),
            "blocks.{}.attention.distance": f"{attention}.r",
            "blocks.{}.attention.output": f"{attention}.o",
            "blocks.{}.attention.content_bias": f"{attention}.r_w_bias",
            "blocks.{}.attention.distance_bias": f"{attention}.r_r_bias",
            "blocks.{}.attention.segment_bias": f"{attention}.r_s_bias",
            "blocks.{}.attention.segment": f"{attention}.seg_embed",
            "blocks.{}.norm_1": f"{attention}.layer_norm",
            "blocks.{}.feedforward.up": "layer.{}.ff.layer_1",
            "blocks.{}.feedforward.down": "layer.{}.ff.layer_2",
            "blocks.{}.norm_2": "layer.{}.ff.layer_norm",
        },
        heads={
            "permutation_lm": {"": "lm_loss"},
            "classes": summary,
            "choice": summary,
            "tags": {"classifier": "classifier"},
            "span": {"classifier": "qa_outputs"},
        },
        architectures={
            "XLNetModel": (),
            "XLNetLMHeadModel": ("permutation_lm",),
            "XLNetForSequenceClassification": ("classes",),
            "XLNetForMultipleChoice": ("choice",),
            "XLNetForTokenClassification": ("tags",),
            "XLNetForQuestionAnsweringSimple": ("span",),
        },
        redundant={"lm_loss.weight": "transformer.word_embedding.weight"},
        fixed={
            "attn_type": "bi",
            "bi_data": False,
            "clamp_len": -1,
            "same_length": False,
            "summary_type": "last",
            "summary_use_proj": True,
            "summary_activation": "tanh",
            "tie_word_embeddings": True,
            "untie_r": True,
        },
        read_config=read_config,
        read_tensors=flat,
        write_tensors=folded,
        version=lambda config: names(config.n_head),
    )


NAMES = names(1)
