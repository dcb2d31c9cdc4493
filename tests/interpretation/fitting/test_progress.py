"""The progress bar."""

from digit_networks import explainer, vectors


def test_fit_prints_one_progress_bar(digit_model, digit_ids, capsys):
    explainer(verbose=1, n_clusters=(3, 2)).fit(digit_model, vectors(digit_ids))
    lines = capsys.readouterr().out.splitlines()
    assert "6/6" in lines[-1]  # 3 batches, 2 clusterings, 1 search
    explainer(n_clusters=(3, 2)).fit(digit_model, vectors(digit_ids))
    assert capsys.readouterr().out == ""
