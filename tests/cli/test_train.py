"""`clearhead pretrain` refuses in one sentence."""


def test_an_objective_that_is_not_there_is_answered_by_all_that_are(run, tmp_path):
    (tmp_path / "a.txt").write_text("a text", encoding="utf-8")
    code, _, err = run("pretrain", "--corpus", tmp_path / "a.txt", "--out", tmp_path, "--objective", "span")
    assert code == 2
    assert "there is no objective 'span'; choose one of masked, masked+next" in err
    assert "causal, spans, permutation" in err
