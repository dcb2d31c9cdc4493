"""Why a top-bag got its class."""

import json
from dataclasses import replace

import numpy as np
from digit_networks import compressed_model, explainer, random_ids, vectors

import keras_mmil
from keras_mmil import ragged


def test_explanation_names_what_decided(digit_model, digit_explainer):
    ids = ragged.from_nested_lists([[[0, 3, 1], [2, 3], [0]], [[0, 1], [2]]])
    positive, negative = digit_explainer.explain(vectors(ids))
    assert (positive.label, positive.network, positive.agrees) == (1, 1, True)
    sub_bags = positive.top_bag.children
    assert [part.deciding for part in sub_bags] == [True, False, False]
    assert [part.position for part in sub_bags[0].children] == [(0, 0, i) for i in range(3)]
    assert [part.deciding for part in sub_bags[0].children] == [False, True, False]
    assert len(sub_bags[0].absent) == 1
    assert sub_bags[0].nearest == sub_bags[0].name
    assert [part.role for part in negative.top_bag.children] == ["checked", "checked"]
    (u3,) = (part.name for part in sub_bags[0].children if part.deciding)
    (u2,) = sub_bags[0].absent
    matches = f"holds a {u3} and no {u2}"
    first, *others = str(positive).splitlines()
    assert first == (
        f"top-bag 0 is positive, because at least one sub-bag {matches}.  (network: positive)"
    )
    assert others == [
        f"    sub-bag 0 matches: it {matches}",
        f"        matches: instance 1 ({u3})",
        "        do not matter: instances 0, 2",
        "    do not matter: sub-bags 1, 2",
    ]
    assert repr(positive) == f"<Explanation: {first.removesuffix('  (network: positive)')}>"
    first, *others, last = str(negative).splitlines()
    name = sub_bags[0].name  # mentioned, as what "holds no … that hold" would be unclear
    assert first == f"top-bag 1 is negative, because no sub-bag is {name}.  (network: negative)"
    assert others[0] == f"    sub-bag 0 does not match: it holds no {u3}"
    assert last == f"    {name}: a sub-bag that {matches}"
    text = positive.formal()
    assert text.startswith("top-bag 0 is positive, because o_v")
    assert "(network: positive)" in text
    assert "decides: sub-bag 0 is v" in text
    assert "does not matter: sub-bags 1 (v" in text
    assert "decides: instance 1 (u" in text
    assert "    absent: u" in text
    data = json.loads(json.dumps(positive.to_dict()))
    assert data["top_bag"]["children"][0]["role"] == "decides"
    assert data["top_bag"]["children"][0]["reason"] == f"it {matches}"
    assert data["agrees"] is True
    odd = replace(positive, top_bag=replace(positive.top_bag, weight=float("nan")))
    assert json.loads(json.dumps(odd.to_dict(), allow_nan=False))["top_bag"]["weight"] is None


def test_explanation_shows_what_the_user_wants_to_see(digit_explainer):
    ids = ragged.from_nested_lists([[[0, 3, 1], [2, 3], [0]]])
    titles = {0: "the case", 1: "visit {}", 2: "measurement {}"}

    def show(position):
        return titles[len(position) - 1].format(position[-1] + 1)

    (explanation,) = digit_explainer.explain(vectors(ids), show)
    text = str(explanation)
    assert text.startswith("top-bag the case is positive")
    assert "sub-bag visit 1 matches: it holds a u" in text
    assert "do not matter: sub-bags visit 2, visit 3" in text
    assert "matches: instance measurement 2 (u" in text
    assert explanation.to_dict()["top_bag"]["children"][2]["title"] == "visit 3"


def test_explanation_says_where_rules_and_network_disagree(digit_model, digit_ids):
    x = vectors(digit_ids)
    fit = explainer(n_clusters=(3, 2), max_depth=1).fit(digit_model, x)
    by_rules = fit.predict(x)
    by_network = (digit_model(x).numpy()[:, 0] > 0.5).astype(int)
    wrong = int(np.flatnonzero(by_rules != by_network)[0])
    explanation = fit.explain(x[wrong : wrong + 1])[0]
    assert not explanation.agrees
    assert f"NOT as the network: {('negative', 'positive')[by_network[wrong]]}" in str(explanation)
    assert any("nearest centroid: v" in each.formal() for each in fit.explain(x))


def test_explanation_of_compressed_bags_shows_multiplicities():
    model = compressed_model("mean")
    ids = random_ids(100)
    fit = explainer(n_clusters=(4, 2)).fit(model, ids)
    bags = keras_mmil.Bags.from_ragged(ragged.from_nested_lists([[[3, 3, 3], [3, 3, 3], [0]]]))
    top_bag = fit.explain(bags)[0].top_bag
    assert sorted(part.weight for part in top_bag.children) == [1, 2]
    assert "(×3)" in str(fit.explain(bags)[0])
    assert "(×2)" in str(fit.explain(bags)[0])
