"""A checkpoint folder ↔ a network: config.json, tokenizer.json, model.safetensors, as Hugging Face lays them out."""

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from clearhead.errors import BadCheckpoint, BadConfig, BadInput, NotFound, WrongTask, require, short, typed
from clearhead.hub.config import CONFIG, NAMES, Description, read_config, to_json
from clearhead.hub.features import DESCRIPTION as FEATURES
from clearhead.hub.features import read_features, write_features
from clearhead.hub.hf.table import Names, from_theirs, numbered, to_theirs
from clearhead.hub.weights import INDEX, WEIGHTS, Sizes, read_sizes, read_tensors, read_weights, write_tensors
from clearhead.io import read_json, read_object, staged, write_json
from clearhead.models import ALL_FAMILIES, GENERATORS, RECURRENT_FAMILIES
from clearhead.models.xlnet import PermutationLMHead
from clearhead.nn.decoder import EncoderDecoder
from clearhead.nn.embeddings import UNLIMITED
from clearhead.nn.heads import MaskedLMHead, Network, NextTokenHead, Pooling, SentenceVector
from clearhead.nn.lora import plain_parameters
from clearhead.text import Tokenizer
from clearhead.text.files import PIECES
from clearhead.text.languages import Around
from clearhead.text.tokenizer import ANY_CLASS

log = logging.getLogger(__name__)

GENERATION = "generation_config.json"
OWN_HEADS = "heads.safetensors"  # heads that no family has, which a task of the user's own brings
_MIXED = "config.json and the weights are from different models"
_LARGEST = Sizes(tensors=2**14, numbers=2**44)  # of an outline whose weights are not there yet
_LABELLED = ("classes", "tags", "span", "sentence_order")


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """Everything a folder holds, ready to run."""

    description: Description
    network: Any  # a Network, or one of RECURRENT_FAMILIES, which has neither encoder nor heads
    tokenizer: Tokenizer | None
    sentence: SentenceVector | None = None  # how a sentence-transformers folder makes one vector of a text
    generation: dict[str, Any] = field(default_factory=dict)  # what generation_config.json says


def recurrent_checkpoint(family: str, network: nn.Module, tokenizer: Tokenizer) -> Checkpoint:
    """A recurrent network, by its name in RECURRENT_FAMILIES, as a checkpoint to be used or saved."""
    config: Any = network.config
    return Checkpoint(description=Description(family=family, config=config), network=network, tokenizer=tokenizer)


def read_folder(folder: Path, dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Read a checkpoint folder; nothing in it can choose code to run."""
    description = read_config(folder)
    read = _read_recurrent if description.family in RECURRENT_FAMILIES else _read_transformer
    return read(folder, description, dtype)


def read_outline(folder: Path) -> Checkpoint:
    """Read all but the weights: a network without heads and numbers, which knows its sizes, and the tokenizer."""
    description = read_config(folder)
    there = any((folder / name).is_file() for name in (WEIGHTS, INDEX))
    return Checkpoint(
        description=description,
        network=build_network(description, {}, "meta", read_sizes(folder) if there else _LARGEST),
        tokenizer=_read_tokenizer(folder, description),
        sentence=read_sentence_vector(folder),
    )


def _read_transformer(folder: Path, description: Description, dtype: torch.dtype) -> Checkpoint:
    sizes = read_sizes(folder)
    tensors = _their_spelling(read_weights(folder), description.names)
    description = replace(description, config=description.names.settle(description.config, tensors))
    names = description.names
    tensors = names.read_tensors(tensors)
    _drop_copies(tensors, names, folder)
    outputs = _heads_in(tensors, names, description)
    description = _with_labels(description, outputs, folder)
    network = build_network(description, outputs, "meta", sizes)
    tokenizer = _read_tokenizer(folder, description)
    if tokenizer is not None and tokenizer.tells_capitals:
        family = description.family
        message = f"{folder}: the tokenizer tells capitals, which {family} does not read; copy it again"
        require(names.reads_capitals, message, BadCheckpoint)
        network.encoder.embeddings.add_capitals()
    parameters = dict(network.named_parameters())
    state = {name: tensor.to(dtype) for name, tensor in from_theirs(names, parameters, tensors).items()}
    _check_leftover(tensors, names, folder, known=description.architecture is not None)
    network.load_state_dict(state, strict=False, assign=True)
    for head in network.heads.values():
        if isinstance(head, MaskedLMHead | PermutationLMHead) or (isinstance(head, NextTokenHead) and head.tied):
            head.weight = network.encoder.embeddings.token.weight  # assigning made two parameters of the shared one
    if (folder / FEATURES).is_file():
        network = read_features(folder, network.encoder, description.labels)
    return Checkpoint(
        description=description,
        network=network.eval(),
        tokenizer=tokenizer,
        sentence=read_sentence_vector(folder),
        generation=_read_generation(folder) if description.family in GENERATORS else {},
    )


def write_folder(
    checkpoint: Checkpoint,
    folder: Path,
    heads: Sequence[str] | None = None,
    *,
    int8: bool = False,
    own: bool = False,
    overwrite: bool = False,
) -> None:
    """Write a checkpoint folder that clearhead and transformers read; a failure on the way leaves the old one.

    Theirs holds one architecture: name the `heads` to keep where the network has more than one architecture's. Heads
    that no family has lie in a file beside it, for `read_own_heads`. A folder with its matrices in `int8` is for
    clearhead alone, and so is a recurrent network's. For `own` and `overwrite` see `io.staged`.
    """
    if checkpoint.description.family in RECURRENT_FAMILIES:
        _write_recurrent(checkpoint, folder, own=own, overwrite=overwrite)
        return
    description, network, names = checkpoint.description, checkpoint.network, checkpoint.description.names
    kept = tuple(network.heads if heads is None else heads)
    absent = [name for name in kept if name not in network.heads]
    if absent:
        raise WrongTask(f"this model has no head {absent[0]!r} to save; it has {', '.join(network.heads) or 'none'}")
    own_heads = nn.ModuleDict({name: network.heads[name] for name in kept if name not in names.heads})
    # a head on several layers lies beside the encoder, too
    theirs = () if network.features is not None else tuple(name for name in kept if name in names.heads)
    part = Network(network.encoder, {name: network.heads[name] for name in theirs})
    architecture = _architecture_for(theirs, names)
    description = replace(
        description,
        architecture=architecture,
        labels=_labels_for(part, description.labels, names.unlabelled),
        threshold=description.threshold if "span" in kept else 0.0,
        null_bias=description.null_bias if "span" in kept else 0.0,
        whole_words=description.whole_words and "tags" in kept,
    )
    tensors = names.write_tensors(to_theirs(names, plain_parameters(part)))
    if not names.architectures[architecture]:
        tensors = {name.removeprefix(names.prefix): tensor for name, tensor in tensors.items()}
    dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
    if not int8 and getattr(network.encoder.embeddings, "capital", None) is not None:
        log.warning("%s: transformers does not read the table for capitals; its results are worse there", folder)
    with staged(folder, own=own, overwrite=overwrite) as stage:
        write_json(to_json(description, dtype) | _token_ids(checkpoint.tokenizer), stage / CONFIG)
        write_tensors(tensors, stage / WEIGHTS, int8=int8)
        if own_heads:
            write_tensors(own_heads.state_dict(), stage / OWN_HEADS)
        if kept:
            write_features(network, stage)
        if checkpoint.generation:
            write_json(checkpoint.generation, stage / GENERATION)
        if (tokenizer := checkpoint.tokenizer) is not None:
            if description.family in GENERATORS:
                tokenizer = export_tokenizer(tokenizer, network.encoder)
            longest = network.encoder.max_length
            said = "model_max_length" in tokenizer.settings or longest == UNLIMITED
            tokenizer.write_files(stage, max_length=None if said else longest)
        if checkpoint.sentence is not None:
            write_sentence_vector(checkpoint.sentence, network.encoder.width, stage)


def read_own_heads(folder: Path, heads: nn.ModuleDict) -> None:
    """Fill heads that no family has, which the caller has built, from a folder of `write_folder`."""
    path = folder / OWN_HEADS
    require(path.is_file(), f"{folder} holds no heads of a task of your own ({OWN_HEADS}); train it first", NotFound)
    tensors, wanted = read_tensors(path), heads.state_dict()
    held, asked = ({name: tuple(tensor.shape) for name, tensor in some.items()} for some in (tensors, wanted))
    if held != asked:
        told = f"{path} holds {', '.join(f'{name} {shape}' for name, shape in held.items())}"
        raise BadCheckpoint(
            f"{told}; the task asks for {', '.join(f'{name} {shape}' for name, shape in asked.items())}"
        )
    heads.load_state_dict(tensors)


def build_network(
    description: Description, outputs: dict[str, int], device: str = "cpu", sizes: Sizes | None = None
) -> Network:
    """Build a network with fresh weights (on "meta", without any) and the named heads, each with its outputs.

    One that will get its weights from files is built no larger than their `sizes`.
    """
    with torch.device(device), Uninitialised(sizes) if device == "meta" else nullcontext():
        encoder = ALL_FAMILIES[description.family].encoder(description.config)
        return Network(encoder, fresh_heads(description.family, encoder, outputs))


def fresh_heads(family: str, encoder: nn.Module, outputs: dict[str, int]) -> dict[str, nn.Module]:
    """Build the named heads of a family, each with its number of outputs."""
    known = NAMES[family].heads
    for name in outputs:
        if name not in known:
            raise WrongTask(f"there is no head {short(name)} for {family}; there are {', '.join(known)}")
    return ALL_FAMILIES[family].heads(encoder, outputs)


class Uninitialised(TorchFunctionMode):
    """Build without initialising, and no more than fits `sizes`: a configuration's sizes are not believed unseen.

    Initialising on "meta" would change nothing, and makes torch import its compiler, which takes two seconds.
    """

    def __init__(self, sizes: Sizes | None) -> None:
        super().__init__()
        self._bounded = sizes is not None
        # with room for what is shared, and for a wrong size whose tensor can be named: it is no larger than the files
        tensors, numbers = sizes or (0, 0)
        self._tensors, self._numbers = 2 * tensors + 64, 16 * numbers + 2**20

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Pass every call on but an initialisation; count what makes a parameter before it is made."""
        given = kwargs or {}
        if getattr(func, "__module__", "") == "torch.nn.init":
            return args[0] if args else given["tensor"]
        if self._bounded and func in (torch.empty, torch.zeros, torch.ones):
            shape = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
            self._tensors -= 1
            self._numbers -= math.prod(shape)
            fits = self._tensors >= 0 and self._numbers >= 0
            require(fits, f"the configuration asks for a larger network than the weights hold; {_MIXED}", BadCheckpoint)
        return func(*args, **given)


def _their_spelling(tensors: dict[str, Tensor], names: Names) -> dict[str, Tensor]:
    """Bring a file to the spelling of the tables: encoder names with their prefix, norms as weight and bias."""
    bare = not any(name.startswith(names.prefix) for name in tensors)
    spelled = {}
    for name, tensor in tensors.items():
        # files converted from TensorFlow spell a norm's weight and bias as gamma and beta
        name = name.removesuffix(".gamma") + ".weight" if name.endswith(".gamma") else name
        name = name.removesuffix(".beta") + ".bias" if name.endswith(".beta") else name
        spelled[f"{names.prefix}{name}" if bare else name] = tensor
    return spelled


def _drop_copies(tensors: dict[str, Tensor], names: Names, folder: Path) -> None:
    """Take out the tensors that repeat another one, after a look that they do."""
    for name in [name for name in tensors if numbered(name) in names.redundant]:
        copy, original = tensors.pop(name), names.redundant[numbered(name)]
        if original is None:
            continue
        kept = tensors.setdefault(original, copy)
        if kept.shape != copy.shape or not torch.equal(kept, copy.to(kept.dtype)):
            raise BadCheckpoint(
                f"{folder}: {name} differs from {original}, but clearhead shares one matrix between the two; "
                "such a model (tie_word_embeddings = false) is not supported"
            )


def _heads_in(tensors: dict[str, Tensor], names: Names, description: Description) -> dict[str, int]:
    """Find the heads a file holds: its architecture's, and those that its tensors alone make known."""
    declared = names.architectures.get(description.architecture or "", ())
    outputs = {}
    for head, table in names.heads.items():
        if head == "causal_lm":  # it may have no tensors of its own
            outputs.update({head: description.config.vocab_size} if head in declared else {})
            continue
        modules = [part for theirs in table.values() for part in ([theirs] if isinstance(theirs, str) else theirs)]
        present = all(any(f"{module}.{leaf}" in tensors for leaf in ("weight", "bias")) for module in modules)
        if head in declared and not present:
            held = f"config.json names {description.architecture}, but the weights have no {modules[-1]}"
            raise BadCheckpoint(f"{held}; {_MIXED}")
        if present and (head in declared or head in names.companions):
            last = next(f"{modules[-1]}.{leaf}" for leaf in ("bias", "weight") if f"{modules[-1]}.{leaf}" in tensors)
            outputs[head] = tensors[last].shape[0] if tensors[last].dim() else 1
    return outputs


def _with_labels(description: Description, outputs: dict[str, int], folder: Path) -> Description:
    """Look that there is a label for each class or tag; stale ones beside a right num_labels are left aside."""
    labels, names = description.labels, description.names
    declared = names.architectures.get(description.architecture or "", ())
    head = next((head for head in ("classes", "tags") if head in declared), None)
    if labels is None or head is None or outputs[head] == len(labels):
        return description
    count = outputs[head]
    told = f"config.json names {len(labels)} labels, but {[*names.heads[head].values()][-1]} has {count} outputs"
    require(description.num_labels == count, f"{told}; {_MIXED}", BadCheckpoint)
    log.warning("%s: %s, as its num_labels says; the names of the labels are left aside", folder, told)
    return replace(description, labels=tuple(f"LABEL_{i}" for i in range(count)))


def _check_leftover(tensors: dict[str, Tensor], names: Names, folder: Path, *, known: bool) -> None:
    left = sorted(tensors)
    if inside := [name for name in left if name.startswith(names.prefix)]:
        raise BadCheckpoint(
            f"{folder}: the encoder has {len(inside)} tensors that its family does not know, such as {inside[0]}; "
            "its numbers would be wrong without them"
        )
    if left:
        todo = "" if known else "; say whose they are with: clearhead convert --architecture NAME"
        log.warning("%s: tensors of no known head are left aside: %s%s", folder, ", ".join(left), todo)


def _architecture_for(heads: Sequence[str], names: Names) -> str:
    # heads that no architecture there has travel as companions
    homeless = set(names.companions).difference(*names.architectures.values())
    wanted = set(heads) - homeless
    for architecture, held in names.architectures.items():
        if set(held) == wanted:
            return architecture
    choices = "; ".join(" + ".join(held) for held in names.architectures.values() if held)
    raise BadInput(f"no Hugging Face architecture holds the heads {sorted(wanted)}; name heads to save: {choices}")


def _labels_for(network: Network, labels: tuple[str, ...] | None, unlabelled: int) -> tuple[str, ...] | None:
    """Give as many labels as the head has outputs, because transformers builds these heads by counting labels."""
    counts = [
        network.heads[name].get_parameter("classifier.weight").shape[0] for name in _LABELLED if name in network.heads
    ]
    if not counts or counts[0] == (unlabelled if labels is None else len(labels)):
        return labels
    return tuple(f"LABEL_{i}" for i in range(counts[0]))


def _read_tokenizer(folder: Path, description: Description, *, needed: bool = False) -> Tokenizer | None:
    """Read the tokenizer if there is one, and look that the model has a vector for each of its tokens."""
    if not needed and not any(
        (folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "vocab.json", "spm.model", PIECES)
    ):
        return None
    embedded = description.config.vocab_size
    tokenizer = Tokenizer.from_folder(folder).within(embedded)
    counts = f"the tokenizer has {tokenizer.vocabulary} tokens, the model has vectors for {embedded}"
    message = f"{folder}: {counts}; they are from different models"
    require(tokenizer.vocabulary <= embedded, message, BadCheckpoint)
    beyond = f"{folder}: the tokenizer has the id {tokenizer.largest_id}, the model has vectors for {embedded}"
    require(tokenizer.largest_id < embedded, f"{beyond}; they are from different models", BadCheckpoint)
    return tokenizer


# classes of transformers that put the languages in their place themselves, whatever tokenizer.json says
_LANGUAGE_CLASSES = ("NllbTokenizer", "MBartTokenizer", "MBart50Tokenizer")
# classes that read source.spm and the like, never tokenizer.json
_PIECE_CLASSES = ("MarianTokenizer", "M2M100Tokenizer")


def source_marks(tokenizer: Tokenizer, body: Any, language: str | None = None) -> Around:
    """The ids that an encoder–decoder reads before a source and after it: the end, and what its family adds to it."""
    config, languages = body.config, tokenizer.languages
    if languages is not None and languages.place != "target":
        return languages.around(config.eos_token_id, language)
    return ((config.bos_token_id,) if body.opens_with_bos else ()), (config.eos_token_id,)


def export_tokenizer(tokenizer: Tokenizer, body: Any) -> Tokenizer:
    """The tokenizer of a model that writes, as transformers needs it to give the model what it reads here.

    A source has its marks round it and nothing else; a prompt has nothing after it, for it goes on. There are no
    segments, and the ends are named.
    """
    config = body.config
    before, after = tokenizer.template.around_text
    ids = {f"{role}_token": getattr(config, f"{role}_token_id", None) for role in ("bos", "eos", "pad")}
    names = {role: tokenizer.id_to_token(token) for role, token in ids.items() if token is not None}
    ends = {role: name for role, name in names.items() if name is not None and not tokenizer.settings.get(role)}
    # GPT-2 would add a token's vector for each segment, and others refuse them
    settings = {"model_input_names": ["input_ids", "attention_mask"], **ends}
    kind = str(tokenizer.settings.get("tokenizer_class")).removesuffix("Fast")
    if kind in _PIECE_CLASSES:
        settings["tokenizer_class"] = ANY_CLASS
    if not isinstance(body, EncoderDecoder):
        after = ()
    elif kind not in _LANGUAGE_CLASSES and tokenizer.id_to_token(config.eos_token_id) is not None:
        before, after = source_marks(tokenizer, body)  # a token without a name belongs to another model
    return tokenizer.with_specials(before, after, settings)


def _read_generation(folder: Path) -> dict[str, Any]:
    path = folder / GENERATION
    return read_object(path) if path.is_file() else {}


def _token_ids(tokenizer: Tokenizer | None) -> dict[str, int | None]:
    """Where special tokens stand: transformers takes those of the published model where config.json says nothing."""
    if tokenizer is None or not {"cls", "sep"} <= tokenizer.special.keys():
        return {}
    first, last = (tokenizer.token_to_id(tokenizer.special[name]) for name in ("cls", "sep"))
    return {"bos_token_id": first, "eos_token_id": last, "cls_token_id": first, "sep_token_id": last}


# our pooling → its switch in 1_Pooling/config.json of sentence-transformers, and its name in newer files
_POOLING: dict[Pooling, tuple[str, str]] = {
    "mean": ("pooling_mode_mean_tokens", "mean"),
    "first": ("pooling_mode_cls_token", "cls"),
    "max": ("pooling_mode_max_tokens", "max"),
    "weighted": ("pooling_mode_weightedmean_tokens", "weightedmean"),
}


def read_sentence_vector(folder: Path) -> SentenceVector | None:
    """Read modules.json, if the folder is one of sentence-transformers'."""
    path = folder / "modules.json"
    if not path.is_file():
        return None
    content = read_json(path, BadCheckpoint)
    try:
        modules = typed(content, list[dict[str, Any]], str(path))
        named = [(typed(module["type"], str, "type"), typed(module["path"], str, "path")) for module in modules]
    except (BadConfig, KeyError):
        raise BadCheckpoint(f"{path} is not a list of modules with type and path; fetch it again") from None
    kinds = [(kind.rsplit(".", 1)[-1], where) for kind, where in named]
    pooling: Pooling = "mean"
    for kind, where in kinds:
        supported = "is not supported; clearhead reads Transformer, Pooling, Normalize"
        require(kind in ("Transformer", "Pooling", "Normalize"), f"{path}: module {short(kind)} {supported}")
        if kind == "Pooling":
            pooling = _pooling(read_object(folder / Path(where).name / CONFIG), folder)
    return SentenceVector(pooling, normalise=any(kind == "Normalize" for kind, _ in kinds))


def _pooling(content: dict[str, Any], folder: Path) -> Pooling:
    chosen = [name for name, on in content.items() if name.startswith("pooling_mode_") and on is True]
    for pooling, (switch, name) in _POOLING.items():
        if chosen == [switch] or content.get("pooling_mode") == name:
            return pooling
    known = "clearhead knows mean, cls, max and weightedmean"
    raise BadConfig(f"{folder}: pooling {short(chosen or content)} is not supported; {known}")


def write_sentence_vector(sentence: SentenceVector, width: int, folder: Path) -> None:
    """Write modules.json and the pooling's configuration."""
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds[: 3 if sentence.normalise else 2])
    ]
    write_json(modules, folder / "modules.json")
    (folder / "1_Pooling").mkdir()
    switches = {switch: pooling == sentence.pooling for pooling, (switch, _) in _POOLING.items()}
    write_json({"word_embedding_dimension": width, **switches}, folder / "1_Pooling" / CONFIG)


def _read_recurrent(folder: Path, description: Description, dtype: torch.dtype) -> Checkpoint:
    """No Hugging Face library knows these models, so that tensors keep the names of the network's parameters."""
    build = RECURRENT_FAMILIES[description.family].network
    with torch.device("meta"), Uninitialised(read_sizes(folder)):
        ours = _tensors(build(description.config))
    theirs = read_weights(folder)
    for name in {**ours, **theirs}:
        wanted, found = (None if name not in side else tuple(side[name].shape) for side in (ours, theirs))
        shapes = f"{folder}: {name} has shape {found}, config.json asks for {wanted}"
        require(wanted == found, f"{shapes}; {_MIXED}", BadCheckpoint)
    network = build(description.config)
    with torch.no_grad():
        for name, tensor in _tensors(network).items():
            tensor.copy_(theirs[name])
    tokenizer = _read_tokenizer(folder, description, needed=True)
    return Checkpoint(description=description, network=network.to(dtype).eval(), tokenizer=tokenizer)


def _write_recurrent(checkpoint: Checkpoint, folder: Path, *, own: bool, overwrite: bool) -> None:
    with staged(folder, own=own, overwrite=overwrite) as stage:
        write_json({"model_type": checkpoint.description.family, **asdict(checkpoint.network.config)}, stage / CONFIG)
        write_tensors(_tensors(checkpoint.network), stage / WEIGHTS)
        if checkpoint.tokenizer is not None:
            checkpoint.tokenizer.write_files(stage)


def _tensors(network: nn.Module) -> dict[str, Tensor]:
    """All that is saved; a matrix with two names comes once."""
    return dict(network.named_parameters()) | dict(network.named_buffers())
