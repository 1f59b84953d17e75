"""Where a model is: in the package, in a folder, or on the Hugging Face hub. Nothing else reaches the network."""

import fnmatch
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clearhead.errors import BadInput, ClearheadError, NotFound, UnsafeCheckpoint, require
from clearhead.io import check_file

FOLDER = Path(__file__).parents[1] / "builtin"
BUILT_IN = "builtin:"  # what the name of a model in the package begins with
# the models in the package, each in a folder of its own; the first is what `load()` reads
BOX = ("encoder", "translator", "gpt", "bert")
# the one that a use takes where none is named; every other use takes the first
UNASKED = {"translate": "translator", "generate": "gpt"}
CARD = "README.md"
# all that a checkpoint is made of; neither a pickle nor code is fetched or published
COMPANIONS = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "source.spm",
    "target.spm",
    "spm.model",
    "sentencepiece.bpe.model",
    "modules.json",
    "sentence_bert_config.json",
    "1_Pooling/config.json",
    CARD,
)
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
FILES = COMPANIONS + WEIGHTS


def unasked(use: str | None = None) -> str:
    """The name of the built-in model that a use takes where none is named.

    >>> unasked("translate"), unasked("classify")
    ('builtin:translator', 'builtin:encoder')
    """
    return BUILT_IN + UNASKED.get(use or "", BOX[0])


def in_the_box() -> list[str]:
    """The names of the built-in models that this copy of clearhead holds.

    >>> in_the_box()[0]
    'builtin:encoder'
    """
    return [BUILT_IN + name for name in BOX if (FOLDER / name / "config.json").is_file()]


def _builtin_folder(name: str) -> Path:
    inside = ", ".join(BUILT_IN + one for one in BOX)
    require(name in BOX, f"there is no built-in model {_short(name)!r}; there are {inside}", NotFound)
    told = f"this copy of clearhead has no built-in model {name!r}"
    remedy = "name a checkpoint folder or a hub model, or make it with: make model"
    require((FOLDER / name / "config.json").is_file(), f"{told}; {remedy}", NotFound)
    return FOLDER / name


def find(name: str | Path) -> Path:
    """Give the folder of a checkpoint: a built-in one, one that exists, or of the hub, fetched once and then cached.

    A built-in one is named as "builtin:bert", one of the hub as "owner/name" or "owner/name@revision"; a Path is only
    ever a place on disk.
    """
    text = str(name)
    if isinstance(name, str) and name.startswith(BUILT_IN):
        return _builtin_folder(name.removeprefix(BUILT_IN))
    if not text.strip():
        raise BadInput("the name of the model is empty; give a folder, or a hub name such as owner/name")
    try:
        path = Path(name).expanduser()
        is_folder, is_there = path.is_dir(), path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # a name longer than the disk takes, the home of no user
        raise NotFound(f"{_short(text)} cannot be looked up ({_short(error)}); check the path") from None
    if is_folder:
        return path
    require(not is_there, f"{name} is a file; give the folder that holds it", BadInput)
    repo, _, revision = text.partition("@")
    is_path = re.match(r"[./~]|[A-Za-z]:", repo) or "\\" in repo or repo.count("/") > 1 or repo.endswith("/")
    if isinstance(name, Path) or is_path:
        raise NotFound(f"the folder {name} is not there; check the path, or give a hub name such as owner/name")
    return _fetch(repo, revision or None)


def publish(folder: Path, name: str, *, private: bool = False, card: str | None = None) -> str:
    """Make the hub repository `name` hold the checkpoint in `folder`, in one commit, and return its URL.

    The repository is created if it is not there. Files of an earlier checkpoint that this one lacks leave it.
    `card` is the README.md where neither the folder nor the repository has one.
    """
    files = checkpoint_files(folder)
    for file in files:
        check_file(folder / file)  # a link would publish what it leads to
    if "config.json" not in files or not _has_weights(files):
        raise NotFound(f"{folder} has no config.json with model.safetensors; save the model there before publishing it")

    from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi

    api = HfApi(library_name="clearhead")
    with _explained(name, refused=BadInput):
        # None leaves it to the hub: an organisation may have made private its default
        url = api.create_repo(name, private=private or None, exist_ok=True)
        there = api.model_info(url.repo_id)
        if private and not there.private:
            raise BadInput(f"{url.repo_id} exists and is public; make it private in its settings, or choose a new name")
        present = [file.rfilename for file in there.siblings or ()]
        changes: list[CommitOperationAdd | CommitOperationCopy | CommitOperationDelete]
        changes = [CommitOperationAdd(file, folder / file) for file in files]
        ours = [file for file in present if any(fnmatch.fnmatchcase(file, pattern) for pattern in FILES)]
        changes += [CommitOperationDelete(file) for file in ours if file not in (CARD, *files)]
        if card is not None and CARD not in (*files, *present):
            changes.append(CommitOperationAdd(CARD, card.encode()))
        api.create_commit(url.repo_id, changes, commit_message="Publish with clearhead")
    return str(url)


def checkpoint_files(folder: Path) -> list[str]:
    """List the files of a folder that belong to a checkpoint, as paths inside it."""
    require(folder.is_dir(), f"the folder {folder} is not there; save the model there first", NotFound)
    paths = {path for pattern in FILES for path in folder.glob(pattern) if path.is_file()}
    return sorted(path.relative_to(folder).as_posix() for path in paths)


def _has_weights(files: list[str]) -> bool:
    return "model.safetensors" in files or "model.safetensors.index.json" in files


def _fetch(repo: str, revision: str | None) -> Path:
    # imported where it is used: most runs never name a hub model
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import OfflineModeIsEnabled

    name = f"{repo}@{revision}" if revision else repo
    with _explained(name, refused=NotFound):
        folder = Path(snapshot_download(repo, revision=revision, allow_patterns=list(FILES), library_name="clearhead"))
        if not _has_weights(checkpoint_files(folder)):
            with suppress(OfflineModeIsEnabled):  # then the reader of the folder says what it lacks
                for file in fnmatch.filter(HfApi().list_repo_files(repo, revision=folder.name), "pytorch_model*.bin"):
                    raise UnsafeCheckpoint(
                        f"{repo} has its weights only as {file}, a pickle, which can run code when opened; if you "
                        f"trust its owner, run: hf download {repo} --local-dir FOLDER, then: clearhead convert FOLDER"
                    )
    return folder


@contextmanager
def _explained(name: str, refused: type[ClearheadError]) -> Iterator[None]:
    """Turn what huggingface_hub and its HTTP library raise into one sentence; `refused` is for access denied."""
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # of httpx or httpx2, by version

    try:
        yield
    except ClearheadError:
        raise
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        raise _translated(error, name, refused) from error


def _translated(error: Exception, name: str, refused: type[ClearheadError]) -> ClearheadError:
    from huggingface_hub import constants, errors

    # only what is fetched may have been meant as a folder
    missing = f"there is no folder {name}, and {name}" if refused is NotFound else name
    cause = error
    if isinstance(error, errors.LocalEntryNotFoundError | RuntimeError) and isinstance(error.__cause__, Exception):
        cause = error.__cause__  # the first wraps every failed request, the second a failed upload
    if isinstance(error, errors.OfflineModeIsEnabled):
        return NotFound(f"{name} is out of reach while HF_HUB_OFFLINE is set; unset it to go online")
    if isinstance(cause, errors.OfflineModeIsEnabled):
        offline = "is not in the cache and HF_HUB_OFFLINE is set; unset it to go online, or give a folder"
        return NotFound(f"{missing} {offline}")
    if isinstance(cause, errors.HFValidationError):
        valid = "a hub name is owner/name, in ASCII letters, digits, '-', '_' and '.'"
        return refused(f"{_short(name)!r} is not a folder and not a valid hub name; {valid}")
    if isinstance(cause, errors.GatedRepoError):
        return refused(f"{name} is gated; ask for access on its page at {constants.ENDPOINT}, then run: hf auth login")
    if isinstance(cause, errors.RevisionNotFoundError):
        return NotFound(f"{name} is not on the hub: it has no such revision; leave out what follows the @")
    if isinstance(cause, errors.HfHubHTTPError):
        status = cause.response.status_code
        if status == 401 and refused is not NotFound:
            return refused(f"{name} needs a valid token of yours; run: hf auth login")
        if isinstance(cause, errors.RepositoryNotFoundError) or status == 404:
            return NotFound(f"{missing} is not on the hub, or is private; check its spelling, or run: hf auth login")
        if status in (401, 403):
            return refused(f"{name}: the hub denies access ({status}); use a token that has it: hf auth login")
        return NotFound(f"{name}: the hub answers with error {status}; try again later, or give a folder")
    if isinstance(cause, ValueError):
        return refused(f"{name} is not accepted ({_short(cause)}); correct that and try again")
    place = f"{constants.ENDPOINT} ({type(cause).__name__}: {_short(cause)})"
    return NotFound(f"{missing} is out of reach at {place}; check the network, or give a folder")


def _short(text: object) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= 200 else words[:200] + "…"
