"""config.json ↔ a family's configuration: known values are checked, unknown ones are refused, not guessed."""

import logging
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_type_hints

from clearhead.errors import BadCheckpoint, BadConfig, BadInput, NotFound, require, typed
from clearhead.hub.hf.decoders import BART, GPT2, M2M100, MARIAN, MBART, T5, XLNET
from clearhead.hub.hf.encoders import ALBERT, BERT, DEBERTA, DISTILBERT, ELECTRA, MODERNBERT, MPNET, ROBERTA
from clearhead.hub.hf.table import Names, Table, numbered
from clearhead.hub.weights import Shape, tensor_shapes
from clearhead.io import read_object
from clearhead.models import ALL_FAMILIES, RECURRENT_FAMILIES

log = logging.getLogger(__name__)

CONFIG = "config.json"
# our parameter names ↔ Hugging Face's, by model_type
NAMES: dict[str, Names] = {
    "albert": ALBERT,
    "bart": BART,
    "bert": BERT,
    "camembert": replace(ROBERTA, model="Camembert"),
    "deberta-v2": DEBERTA,
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
    "gpt2": GPT2,
    "m2m_100": M2M100,
    "marian": MARIAN,
    "mbart": MBART,
    "modernbert": MODERNBERT,
    "mpnet": MPNET,
    "roberta": ROBERTA,
    "t5": T5,
    "xlm-roberta": replace(ROBERTA, model="XLMRoberta"),
    "xlnet": XLNET,
}

# what transformers writes beside the architecture and what does not change an encoder's numbers
_BESIDE = set(
    """
    architectures model_type id2label label2id num_labels problem_type dtype torch_dtype transformers_version
    _name_or_path name_or_path use_cache gradient_checkpointing bos_token_id eos_token_id cls_token_id sep_token_id
    mask_token_id output_attentions output_hidden_states return_dict directionality pooler_fc_size
    pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type finetuning_task language task
    is_encoder_decoder chunk_size_feed_forward tie_word_embeddings
    """.split()  # noqa: SIM905
)

_TAGS = "ForTokenClassification"
_NORM = {"gamma": "weight", "beta": "bias"}

# where transformers keeps the options of a use, and the three of ours: the use, and the option's name there
TASKS = "task_specific_params"
_THRESHOLD, _NULL_BIAS = (("question-answering", name) for name in ("threshold", "null_bias"))
_WHOLE_WORDS = ("token-classification", "whole_words")


@dataclass(frozen=True, kw_only=True)
class Description:
    """All that a config.json says: the family and its configuration, the architecture, and the labels."""

    family: str
    config: Any
    architecture: str | None = None
    labels: tuple[str, ...] | None = None
    num_labels: int | None = None  # as the file says it beside the labels
    problem: str | None = None
    threshold: float = 0.0  # by how much "no answer" must beat the best span of a text
    null_bias: float = 0.0  # added to the logit of "no answer", so that scores are probabilities
    whole_words: bool = False  # tags were taught by the first piece of each word, which speaks for the others
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        """The table of the family's parameter names, in the version that the configuration asks for."""
        names = NAMES[self.family]
        return names if names.version is None else names.version(self.config)


def read_config(folder: Path) -> Description:
    """Read and check `folder`/config.json; in a recurrent network's, every key must be known."""
    path = folder / CONFIG
    require(path.exists(), f"{path} is not there; a checkpoint folder needs it", NotFound)
    content = read_object(path)
    if not content.get("model_type") or not content.get("architectures"):
        content = completed(content, tensor_shapes(folder), folder)
    family = content.get("model_type")
    known = ALL_FAMILIES | RECURRENT_FAMILIES
    if not isinstance(family, str) or family not in known:
        raise BadConfig(f"{path}: unknown model_type {family!r}; clearhead reads {', '.join(known)}")
    expected = {spec.name for spec in fields(known[family].config)}
    if family in RECURRENT_FAMILIES:
        if unknown := sorted(content.keys() - expected - {"model_type"}):
            raise BadConfig(f"{path}: unknown key {unknown[0]!r}; {family} knows {', '.join(sorted(expected))}")
        return Description(family=family, config=_build_config(RECURRENT_FAMILIES[family].config, content, path))
    names = NAMES[family]
    for name, value in names.fixed.items():
        if content.get(name, value) != value:
            raise BadConfig(f"{path}: {name} = {content[name]!r} is not supported; clearhead computes {value!r}")
    try:
        content = names.read_config(content)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from None
    config = _build_config(ALL_FAMILIES[family].config, content, path)
    threshold, content = _take_number(content, _THRESHOLD, path)
    null_bias, content = _take_number(content, _NULL_BIAS, path)
    whole_words, content = _take_option(content, _WHOLE_WORDS)
    extra = {name: content[name] for name in content if name not in expected | _BESIDE | names.fixed.keys()}
    if extra:
        log.info("%s: unknown keys are kept and not used: %s", path, ", ".join(sorted(extra)))
    return Description(
        family=family,
        config=config,
        architecture=_architecture(content, names, path),
        labels=_labels(content, path),
        num_labels=typed(content.get("num_labels", content.get("_num_labels")), int | None, f"{path}: num_labels"),
        problem=typed(content.get("problem_type"), str | None, f"{path}: problem_type"),
        threshold=threshold,
        null_bias=null_bias,
        whole_words=bool(typed(whole_words, bool | None, f"{path}: whole_words")),
        extra=extra,
    )


def completed(content: dict[str, Any], shapes: Mapping[str, Shape], folder: Path) -> dict[str, Any]:
    """The content of a config.json with the model_type and the architecture that it does not name, as far as known."""
    said = content.get("model_type")
    if said is not None and (not isinstance(said, str) or said not in NAMES):
        return content
    family = said or infer_family(content, shapes, folder / CONFIG)
    found: dict[str, Any] = {"model_type": family} if said is None else {}
    labels = map(str, _entries(content.get("id2label")).values())
    if not content.get("architectures") and (one := infer_architecture(family, shapes, labels)) is not None:
        found["architectures"] = [one]
    if found:
        told = " and ".join(f"{name} {value if isinstance(value, str) else value[0]}" for name, value in found.items())
        missing = " and no ".join(found)
        log.warning("%s names no %s; by its tensors it is taken to be %s", folder / CONFIG, missing, told)
    return {**content, **found}


def named_config(
    folder: Path, shapes: Mapping[str, Shape], family: str | None, architecture: str | None, *, overwrite: bool
) -> dict[str, Any]:
    """The config.json of a folder with this model_type and architecture, if its tensors have them.

    Without the one, it follows from the other, from the file, or from the tensors. What the file says otherwise is
    refused, unless it may be overwritten.
    """
    path = folder / CONFIG
    require(path.is_file(), f"{path} is not there; only its sizes say what the tensors are", NotFound)
    content = read_object(path)
    said = {"model_type": content.get("model_type"), "architectures": content.get("architectures")}
    classes = {name: known for known, names in NAMES.items() for name in names.architectures}
    for value, known in ((family, NAMES), (architecture, classes)):
        near = get_close_matches(str(value), known, n=5, cutoff=0.4) or list(NAMES)
        told = f"{value!r} is not known to clearhead; there are {', '.join(near)}"
        require(value is None or value in known, told, BadInput)
    if family is None and architecture is not None:
        family = classes[architecture]
    elif family is None:
        family = str(said["model_type"] or infer_family(content, shapes, path))
    fits = _lacking(family, shapes) is not None
    others = " or ".join(one for one in ALL_FAMILIES if _lacking(one, shapes) is not None) or "no family known here"
    require(fits, f"the tensors of {folder} are not those of {family}, but of {others}", BadInput)
    wrong = architecture is not None and architecture not in NAMES[family].architectures
    require(
        not wrong, f"{architecture} is no class of {family}; it has {', '.join(NAMES[family].architectures)}", BadInput
    )
    found: dict[str, Any] = {"model_type": family}
    one = architecture or (None if said["architectures"] else infer_architecture(family, shapes))
    found |= {} if one is None else {"architectures": [one]}
    for name, value in found.items():
        kept = overwrite or said[name] in (None, [], value)
        told = f"{path} names {name} {said[name]!r}, not {value!r}"
        require(kept, f"{told}; choose another target or pass overwrite=True", BadInput)
    return {**content, **found}


def infer_family(content: dict[str, Any], shapes: Mapping[str, Shape], path: Path) -> str:
    """Find the model_type that a config.json does not name: by its architecture, or by the names of its tensors."""
    said = content.get("architectures")
    named = str(said[0]) if isinstance(said, list) and said else ""
    fits = [family for family in ALL_FAMILIES if named in NAMES[family].architectures]
    if not fits:
        known, lacking = ", ".join(ALL_FAMILIES), {family: _lacking(family, shapes) for family in ALL_FAMILIES}
        found = [count for count in lacking.values() if count is not None]
        told = "and its tensors are of no family that clearhead reads" if shapes else "as files before 2020 do"
        require(bool(found), f"{path} names no model_type, {told}; add one of {known}")
        fits = [family for family, count in lacking.items() if count == min(found)]
    # CamemBERT and XLM-R are RoBERTa by another name: the same network, read in the same way
    first = {ALL_FAMILIES[family].encoder: family for family in reversed(fits)}
    names = " or ".join(reversed(first.values()))
    told = f"{path} names no model_type, and its tensors may be those of {names}"
    require(len(first) == 1, f"{told}; say which with: clearhead convert --family NAME")
    return next(iter(first.values()))


def infer_architecture(family: str, shapes: Mapping[str, Shape], labels: Iterable[str] = ()) -> str | None:
    """Find the one architecture of a family whose heads a file has; None if it has none, or may be of several."""
    names, present = NAMES[family], {numbered(_modern(name)) for name in shapes}
    if not any(name.startswith(names.prefix) for name in present):
        return None
    fits: dict[str, set[str]] = {}
    for architecture, heads in names.architectures.items():
        modules = {module for head in heads for module in _modules(names.heads[head])} - {*names.zeros}
        scores = "choice" in heads and _outputs(shapes, str(names.heads["choice"]["classifier"])) != 1
        if heads and not scores and all(_has(present, module) for module in modules):
            fits[architecture] = modules
    tags = f"{names.model}{_TAGS}"
    # files of the first years have a pooler beside the tags, as if for classes
    if tags in fits and len(fits) > 1 and "pooled" in names.heads:
        if any(label == "O" or label.startswith(("B-", "I-")) for label in labels):
            return tags
        return None
    # of two that fit, the one that says more; of equals, none
    largest = [one for one, modules in fits.items() if not any(modules < others for others in fits.values())]
    return largest[0] if len(largest) == 1 else None


def _lacking(family: str, shapes: Mapping[str, Shape]) -> int | None:
    """How many modules of a family's encoder a file has not; None if it has others, or lacks a part of the blocks."""
    present = {numbered(_modern(name)) for name in shapes}
    for names in (NAMES[family], *NAMES[family].variants):
        bare = not any(name.startswith(names.prefix) for name in present)
        whole = {f"{names.prefix}{name}" if bare else name for name in present}
        encoder = {_place(names, module) for module in _modules(names.encoder)}
        heads = {module for table in names.heads.values() for module in _modules(table)}
        known = encoder | heads | {numbered(name) for name in names.redundant}
        blocks = {ours: theirs for ours, theirs in names.encoder.items() if "{}" in str(theirs)}
        inside = (name for name in whole if name.startswith(names.prefix))
        if all(name in known or name.rpartition(".")[0] in known for name in inside) and all(
            _has(whole, _place(names, module)) for module in _modules(blocks)
        ):
            return sum(not _has(whole, module) for module in encoder)
    return None


def _place(names: Names, module: str) -> str:
    return numbered(f"{names.prefix}{module}.")[:-1]


def _modules(table: Table) -> set[str]:
    return {part for theirs in table.values() for part in ([theirs] if isinstance(theirs, str) else theirs)}


def _has(present: set[str], module: str) -> bool:
    return module in present or any(f"{module}.{leaf}" in present for leaf in ("weight", "bias"))


def _outputs(shapes: Mapping[str, Shape], module: str) -> int | None:
    return next((shapes[name][0] for leaf in ("weight", "bias") if (name := f"{module}.{leaf}") in shapes), None)


def _modern(name: str) -> str:
    """A norm's weight and bias, which files converted from TensorFlow call gamma and beta."""
    owner, _, leaf = name.rpartition(".")
    return f"{owner}.{_NORM.get(leaf, leaf)}" if owner else name


def is_recurrent(folder: Path) -> bool:
    """Whether a folder holds a model from before the Transformer."""
    return (folder / CONFIG).is_file() and str(read_object(folder / CONFIG).get("model_type")) in RECURRENT_FAMILIES


def to_json(description: Description, dtype: str) -> dict[str, Any]:
    """Write a description as config.json has it."""
    content: dict[str, Any] = {
        **description.extra,
        "architectures": [description.architecture],
        "model_type": description.family,
        "dtype": dtype,
        **NAMES[description.family].write_config(asdict(description.config)),
    }
    if description.labels is not None:
        content["id2label"] = {str(i): label for i, label in enumerate(description.labels)}
        content["label2id"] = {label: i for i, label in enumerate(description.labels)}
    if description.problem is not None:
        content["problem_type"] = description.problem
    for (use, name), value in (
        (_THRESHOLD, description.threshold),
        (_NULL_BIAS, description.null_bias),
        (_WHOLE_WORDS, description.whole_words),
    ):
        if value:
            tasks = _entries(content.get(TASKS))
            content[TASKS] = tasks | {use: _entries(tasks.get(use)) | {name: value}}
    return content


def is_number(value: Any) -> bool:
    """Whether a value of a JSON file is a number that a float can hold; NaN and infinity are none."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _build_config(kind: type, content: dict[str, Any], path: Path) -> Any:
    """Make a configuration of the fields it knows; `path` is where they were read."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name in content}
    values = {name: typed(content[name], hint, f"{path}: {name}") for name, hint in hints.items()}
    try:
        return kind(**values)
    except BadConfig as error:
        raise BadConfig(f"{path}: {error}") from None


def _architecture(content: dict[str, Any], names: Names, path: Path) -> str | None:
    said = content.get("architectures")
    if not said:
        return None
    known = list(names.architectures)
    fits = isinstance(said, list) and said[0] in known
    require(fits, f"{path}: unknown architecture {said!r}; clearhead reads {', '.join(known)}")
    return str(said[0])


def _take_number(content: dict[str, Any], option: tuple[str, str], path: Path) -> tuple[float, dict[str, Any]]:
    """Take an option out that is a number, 0 where there is none."""
    (use, name), (value, rest) = option, _take_option(content, option)
    message = f"{path}: the {name} {value!r} for {use} is no number; write one, or leave it out"
    require(value is None or is_number(value), message, BadCheckpoint)
    return 0.0 if value is None else float(value), rest


def _take_option(content: dict[str, Any], option: tuple[str, str]) -> tuple[Any, dict[str, Any]]:
    """Take an option of a use out, so that another value can be written; whatever lies beside it stays."""
    use, name = option
    tasks = _entries(content.get(TASKS))
    options = _entries(tasks.get(use))
    value = options.pop(name, None)
    if value is None:
        return None, content
    left = {other: entry for other, entry in (tasks | {use: options}).items() if entry or other != use}
    rest = {key: kept for key, kept in content.items() if key != TASKS}
    return value, rest | ({TASKS: left} if left else {})


def _entries(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _labels(content: dict[str, Any], path: Path) -> tuple[str, ...] | None:
    labels = content.get("id2label")
    if labels is None:
        return None
    try:
        by_id = {int(i): label for i, label in labels.items()}
        return tuple(str(by_id[i]) for i in range(len(by_id)))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise BadCheckpoint(f"{path}: id2label must number the labels from 0, got {labels!r}") from None
