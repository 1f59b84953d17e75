from clearhead.demo import main


def test_the_tour_runs_offline_and_its_model_has_learnt(tmp_path, capsys):
    main(tmp_path / "demo")
    out = capsys.readouterr().out
    assert "no trained model yet" in out
    assert "14 and 12 -> 0.88 and 0.12" in out
    assert "\nsea " in out
    assert "\nmice " in out
    assert (tmp_path / "demo" / "attention.html").stat().st_size > 10_000
