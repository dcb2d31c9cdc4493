"""Rules as a classifier: labels, fidelity and accuracy."""

import numpy as np
import pytest
from digit_networks import N_DIGITS, explainer, random_ids, truth, vectors
from random_networks import make_data, make_model, quick_explainer
from sklearn.metrics import accuracy_score


@pytest.mark.slow
def test_fidelity_and_accuracy_beside_the_most_frequent_class(digit_model, digit_ids):
    """Counted by hand; on data where rules, network and truth differ."""
    valid, x, labels = (random_ids(n, seed) for n, seed in ((60, 1), (90, 2), (90, 3)))
    fit = explainer(n_clusters=(2, 2)).fit(digit_model, vectors(digit_ids), vectors(valid))

    def by_network(data):
        return (digit_model.predict(vectors(data), verbose=0)[:, 0] > 0.5).astype(int).tolist()

    def share_of_most_frequent(classes):
        return max(map(classes.count, classes)) / len(classes)

    assert fit.majority_ == share_of_most_frequent(by_network(valid))
    by_rules, y = fit.predict(vectors(x)).tolist(), truth(labels)
    found = fit.evaluate(vectors(x), y)
    assert found == {
        "fidelity": np.mean([a == b for a, b in zip(by_rules, by_network(x), strict=True)]),
        "fidelity_majority": share_of_most_frequent(by_network(x)),
        "accuracy": accuracy_score(y, by_rules),
        "accuracy_majority": share_of_most_frequent(y.tolist()),
    }
    assert len({round(figure, 6) for figure in found.values()}) > 2
    assert found["fidelity"] == fit.fidelity(vectors(x))
    assert found["accuracy"] == fit.score(vectors(x), y)
    without_labels = {name: found[name] for name in ("fidelity", "fidelity_majority")}
    assert fit.evaluate(vectors(x)) == without_labels
    with pytest.raises(ValueError, match=r"Expected labels.*Received: y=None"):
        fit.score(vectors(x), None)


def test_labels_are_nested_like_the_data(digit_ids, digit_explainer):
    instances, sub_bags = digit_explainer.labels(vectors(digit_ids))
    np.testing.assert_array_equal(instances.row_splits, digit_ids.row_splits)
    np.testing.assert_array_equal(instances.values.row_splits, digit_ids.values.row_splits)
    np.testing.assert_array_equal(sub_bags.row_splits, digit_ids.row_splits)
    assert len({(d, c) for d, c in zip(digit_ids.flat_values.numpy(), instances.flat_values.numpy(),
                                       strict=True)}) == N_DIGITS  # fmt: skip


def test_labels_of_the_wrong_length():
    x = make_data()
    model = make_model()
    fit = quick_explainer(target=(0, float(np.median(model(x))))).fit(model, x)
    with pytest.raises(ValueError, match=r"each of 30 top-bags\. Received: y with 3 labels"):
        fit.score(x, [0, 1, 0])


def test_weights_that_changed():
    x = make_data()
    model = make_model()
    fit = quick_explainer(target=(0, float(np.median(model(x))))).fit(model, x)
    model.set_weights([w + 1 for w in model.get_weights()])
    with pytest.raises(ValueError, match=r"fit again\. Received: model=.* with other weights"):
        fit.predict(x)
