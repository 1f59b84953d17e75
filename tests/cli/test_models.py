"""`clearhead info`, `convert` and `export`."""

import json
import subprocess
import sys

from inside.models import telling
from pipelines.writers import gpt_folder, translator


def test_info(run, folder):
    code, out, _ = run("info", folder)
    assert code == 0
    assert "family               bert" in out
    facts = json.loads(run("info", folder, "--json")[1])
    assert facts["heads"] == ["masked_lm", "pooled", "next_sentence"]
    assert facts["config"]["hidden_size"] == 32
    assert facts["stored"] == "float32"


def test_convert(run, folder, tmp_path):
    import shutil

    import torch
    from safetensors.torch import load_file

    old = tmp_path / "old"
    shutil.copytree(folder, old)
    torch.save(load_file(old / "model.safetensors"), old / "pytorch_model.bin")
    (old / "model.safetensors").unlink()
    code, _, err = run("info", old)
    assert code == 2
    assert f"clearhead convert {old}" in err
    code, out, _ = run("convert", old)
    assert (code, out.strip()) == (0, f"wrote {old / 'model.safetensors'}")
    assert run("info", old)[0] == 0


def test_export_says_that_transformers_reads_no_capitals(tmp_path):
    telling().save(tmp_path / "names")
    words = ["export", str(tmp_path / "out"), "--model", str(tmp_path / "names")]
    done = subprocess.run([sys.executable, "-m", "clearhead", *words], capture_output=True, text=True, check=True)
    assert done.stderr.count("transformers does not read the table for capitals") == 1
    assert done.stderr.count("\n") == 1
    assert done.stdout.startswith("wrote Model(modernbert")


def test_info_knows_recurrent_models(run, tmp_path):
    translator("seq2seq-gru").save(tmp_path / "gru")
    code, out, _ = run("info", tmp_path / "gru", "--json")
    assert code == 0
    assert json.loads(out)["family"] == "seq2seq-gru"


def test_info_names_no_length_where_there_is_no_limit(run, tmp_path):
    translator("t5").save(tmp_path / "t5")
    assert json.loads(run("info", tmp_path / "t5", "--json")[1])["max_length"] is None
    assert "max_length" not in run("info", tmp_path / "t5")[1]
    assert json.loads(run("info", gpt_folder(), "--json")[1])["max_length"] == 96
