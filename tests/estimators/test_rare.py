"""Of a class that is hardly ever predicted, rules say where it is likelier."""

import json

import numpy as np
import pytest

from keras_mmil import NestedClassifier
from keras_mmil.estimators.trials import Trial
from keras_mmil.rules.network.targets import Target
from keras_mmil_cli.main import main


def payments(n, seed):
    """Customers, 1 % of whom are fraudulent: a quarter of those with a large payment from F."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        made = [
            {"country": str(rng.choice(list("ABCDEF"))), "amount": float(rng.integers(200))}
            for _ in range(rng.integers(1, 4))
        ]
        hit = any(each["country"] == "F" and each["amount"] > 170 for each in made)
        is_fraud = bool(rng.random() < (0.3 if hit else 0.002))
        found.append({"age": int(rng.integers(20, 80)), "payments": made, "fraud": is_fraud})
    return found


@pytest.mark.slow
def test_rules_of_a_rare_class(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = map(json.dumps, payments(4000, seed=0))
    (tmp_path / "all.jsonl").write_text("\n".join(lines), encoding="utf-8")
    main(["train", "all.jsonl", "--target", "fraud", "--out", "run"])
    printed = capsys.readouterr().out
    assert "is hardly ever predicted" in printed
    assert "records for test" in printed.partition("is hardly ever predicted")[2]
    estimator = NestedClassifier.load("run")
    assert estimator.rare_class_ == 1
    assert estimator.rules_.constant is None
    assert "payments are (country F, amount > 1" in estimator.rules_.text()

    records = payments(3000, seed=1)
    truth = np.array([record["fraud"] for record in records])
    assert estimator.predict(records).mean() < 0.1 * truth.mean()
    by_rules = estimator.predict(records, by="rules")
    assert truth[by_rules].mean() > 8 * truth.mean()
    x, y, _ = estimator.schema_.read_labelled(records, "fraud")
    best = max(estimator.explainer_.certify(x, y).rules, key=lambda rule: rule.lift or 0)
    assert best.clause.startswith("P(True) > ")
    assert best.lift > 8


@pytest.mark.parametrize(("names", "rare"), [(["fraud", "ok"], 0), (["ok", "wrong"], 1)])
def test_a_class_is_likelier_than_its_share(names, rare):
    estimator = NestedClassifier()
    estimator.classes_, estimator.is_multilabel_ = np.array(names), False
    all_ = {"model": "all", "loss": 0.1, "score": 0.98, "auc": 0.9, "weight": 1.0}
    estimator.trials_ = (Trial(**all_, rarest=0.02, recall=0.5, rare_class=rare),)
    assert estimator._rule_target(None) == {"class_names": names}
    estimator.trials_ = (Trial(**all_, rarest=0.02, recall=0.05, rare_class=rare),)
    found = estimator._rule_target(None)
    of_rare = np.array([0.01, 0.019, 0.021, 0.5])
    of_second = of_rare if rare else 1 - of_rare
    index, threshold = found["target"]
    labels = Target("threshold", 1, index, threshold).labels(of_second[:, None])
    name = f"P({names[rare]})"
    expected = [f"{name} ≤ 2.0 %"] * 2 + [f"{name} > 2.0 %"] * 2
    assert [found["class_names"][label] for label in labels] == expected
