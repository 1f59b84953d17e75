import subprocess
import sys
from pathlib import Path

from clearhead import evaluation


def test_metrics_need_no_torch_and_say_nothing():
    run_models = ("perplexity", "tasks", "translation")
    names = [path.stem for path in Path(evaluation.__path__[0]).glob("[!_]*.py") if path.stem not in run_models]
    imports = "\n".join(f"import clearhead.evaluation.{name}" for name in names)
    script = f"import sys\n{imports}\nprint(sorted({{'torch', 'transformers', 'sacrebleu'}} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")
