"""Single top-bags."""

import pytest
from bag_forms import FORMS, compressed_model, ids, new_explainer, packed, plain_model, vectors

from keras_mmil import ragged


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_single_top_bag_is_explained(form):
    make_model, make_data = FORMS[form]
    model, x = make_model(), make_data()
    fit = new_explainer(model, x).fit(model, x)
    (found,) = fit.explain(x[3])
    (expected,) = fit.explain(x[3:4])
    assert str(found) == str(expected)
    assert found.to_dict() == expected.to_dict()
    if form != "compressed":  # Bags[0] are Bags
        with pytest.raises((ValueError, TypeError), match=r"x\[:1\].*Received: x with"):
            fit.predict(x[0])


def test_a_single_top_bag_of_several_inputs():
    model, x = compressed_model(), packed()
    fit = new_explainer(model, x).fit(model, x)
    inputs = x.inputs
    one = {name: part[1] for name, part in inputs.items()}
    assert str(fit.explain(one)[0]) == str(fit.explain(x[1:2])[0])
    assert str(fit.explain(ids()[1])[0]) == str(fit.explain(ids()[1:2])[0])
    with pytest.raises(ValueError, match=r"Expected .*x\[:1\].*Received: x with"):
        fit.predict(one)


def test_a_single_empty_top_bag():
    model = plain_model(1)
    x = ragged.from_flat(vectors(1).flat_values[:5], [[2, 0, 3]])
    fit = new_explainer(model, x).fit(model, x, x)
    assert str(fit.explain(x[1])[0]) == str(fit.explain(x[1:2])[0])
