"""config.json ↔ a family's configuration: known values are checked, unknown ones are refused, not guessed."""

import logging
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from clearhead.errors import BadCheckpoint, BadConfig, NotFound, require, typed
from clearhead.hub.hf.decoders import BART, GPT2, M2M100, MARIAN, MBART, T5, XLNET
from clearhead.hub.hf.encoders import ALBERT, BERT, DEBERTA, DISTILBERT, ELECTRA, MODERNBERT, MPNET, ROBERTA
from clearhead.hub.hf.table import Names
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

# where transformers keeps the options of a use
_TASKS, _ANSWERING = "task_specific_params", "question-answering"


@dataclass(frozen=True, kw_only=True)
class Description:
    """All that a config.json says: the family and its configuration, the architecture, and the labels."""

    family: str
    config: Any
    architecture: str | None = None
    labels: tuple[str, ...] | None = None
    problem: str | None = None
    threshold: float = 0.0  # by how much "no answer" must beat the best span of a text
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
    family = content.get("model_type")
    if family is None:
        raise BadConfig(f"{path} names no model_type, as files before 2020 do; add one of {', '.join(ALL_FAMILIES)}")
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
    threshold, content = _take_threshold(content, path)
    extra = {name: content[name] for name in content if name not in expected | _BESIDE | names.fixed.keys()}
    if extra:
        log.info("%s: unknown keys are kept and not used: %s", path, ", ".join(sorted(extra)))
    return Description(
        family=family,
        config=config,
        architecture=_architecture(content, names, path),
        labels=_labels(content, path),
        problem=typed(content.get("problem_type"), str | None, f"{path}: problem_type"),
        threshold=threshold,
        extra=extra,
    )


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
    if description.threshold != 0:
        tasks = _entries(content.get(_TASKS))
        options = _entries(tasks.get(_ANSWERING)) | {"threshold": description.threshold}
        content[_TASKS] = tasks | {_ANSWERING: options}
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


def _take_threshold(content: dict[str, Any], path: Path) -> tuple[float, dict[str, Any]]:
    """Take the threshold out, so that another one can be written; whatever lies beside it stays."""
    tasks = _entries(content.get(_TASKS))
    options = _entries(tasks.get(_ANSWERING))
    threshold = options.pop("threshold", None)
    if threshold is None:
        return 0.0, content
    message = f"{path}: the threshold {threshold!r} for {_ANSWERING} is no number; write one, or leave it out"
    require(is_number(threshold), message, BadCheckpoint)
    left = {name: entry for name, entry in (tasks | {_ANSWERING: options}).items() if entry or name != _ANSWERING}
    rest = {name: value for name, value in content.items() if name != _TASKS}
    return float(threshold), rest | ({_TASKS: left} if left else {})


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
