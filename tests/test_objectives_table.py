"""The table of objectives shows what is there, and says where seeds are missing."""

import json

from objectives import EPOCHS, VARIANTS, table


def test_a_row_that_is_not_complete_is_shown_without_a_mean(tmp_path):
    first, second, *_ = VARIANTS
    rows = [{"task": task, "variant": first, "figure": 80.0 + seed} for task in EPOCHS for seed in range(3)]
    rows += [{"task": "RTE", "variant": second, "figure": 55.0}]
    for place, some in enumerate((rows[:5], rows[5:])):
        (tmp_path / f"{place}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
    lines = table(sorted(tmp_path.glob("*.jsonl"))).splitlines()
    assert lines[0] == "| Variant | SST-2 | MRPC | RTE | STS-B | CoNLL-2003 | SQuAD 1.1 | mean |"
    assert lines[2] == f"| {first} |" + " 81.0 ± 1.0 |" * 6 + " 81.0 |"
    assert lines[3:] == [f"| {second} | – | – | 55.0 (1) | – | – | – | – |"]
