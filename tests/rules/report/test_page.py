"""The report: what is on the page, and how it behaves in a browser."""

import html
import json
import re

import numpy as np
import pytest
import tensorflow as tf
from chromium import chromium
from digit_networks import random_ids, vectors
from record_networks import churns, random_customers, read

from keras_mmil.rules.report.page import Report
from keras_mmil.rules.report.renderers import ByPath, Images, Plain, Renderer, markup

NASTY = '<script>alert("x")</script>'


@pytest.fixture(scope="module")
def digits():
    return vectors(random_ids(150, seed=5))


@pytest.fixture(scope="module")
def page(digit_explainer, digits):
    return digit_explainer.report(digits, np.arange(150) % 2, n_cases=12)


def data_of(page):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.html)
    return json.loads(found)


def text_of(page):
    body = page.html[page.html.index("<body>") : page.html.index("<script type")]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", body)))


def test_figures_are_those_of_the_explainer(page, digit_explainer, digits):
    y = np.arange(150) % 2
    certificate = digit_explainer.certify(digits, y)
    text = text_of(page)
    found = certificate.fidelity
    assert f"fidelity{100 * found.estimate:.1f} %95 %: {100 * found.low:.1f} %" in text.replace(
        "> ", ">"
    ).replace(" fidelity ", "fidelity")
    assert f"rule accuracy{100 * certificate.accuracy.estimate:.1f} %" in text
    assert "constant rules" in text
    data = data_of(page)
    assert data == json.loads(json.dumps(page.data))
    assert data["in_words"] == digit_explainer.rules_.in_words()
    assert [figure["title"] for figure in data["figures"]] == [
        "network accuracy",
        "rule accuracy",
        "fidelity",
        "deletion test",
    ]


def test_figures_of_network_rules_and_both_are_told_apart(rough):
    page = rough.explainer.report(rough.x, rough.y, n_cases=0)
    found = {each["title"]: each["value"] for each in data_of(page)["figures"]}
    for title, right in (
        ("network accuracy", rough.network == rough.y),
        ("rule accuracy", rough.rules == rough.y),
        ("fidelity", rough.rules == rough.network),
    ):
        assert found[title] == f"{100 * np.mean(right):.1f} %"
    assert len({found[title] for title in ("network accuracy", "rule accuracy", "fidelity")}) == 3


def test_other_errors_are_not_taken_for_data_that_were_seen(rough, monkeypatch):
    """Only what is expected is left out of a page: anything else is an error."""
    for name in ("certify", "ragged.take"):
        with monkeypatch.context() as patched:
            patched.setattr(f"keras_mmil.rules.report.data.{name}", failing)
            with pytest.raises(ValueError, match="a mistake"):
                rough.explainer.report(rough.x, rough.y, n_cases=0)
    nothing = np.zeros(0, np.uint64)
    page = rough.explainer.report(rough.x, rough.y, n_cases=0, trained_on=nothing)
    assert "They have seen none of these top-bags" in text_of(page)


def failing(*_):
    raise ValueError("a mistake")


def test_the_page_needs_nothing_else(page):
    assert not re.findall(r"https?://|//[a-z]|@import|url\((?!data:)", page.html)
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page.html)
    assert "default-src 'none'" in page.html


def test_cases_are_of_all_rules(page, digit_explainer, digits):
    cases = page.data["cases"]
    assert len(cases) == 12
    assert {case["rule"] for case in cases} == {1, 2}
    labels = digit_explainer.predict(digits)
    for case in cases:
        assert case["rules"] == digit_explainer.classes_[labels[case["index"]]]
        assert case["truth"] == digit_explainer.classes_[case["index"] % 2]
    assert page.html.count('<article class="case') == 12


def test_rare_rules_are_shown_on_demand(digit_explainer, digits, page, monkeypatch):
    assert "more rule" not in page.html
    supports = [np.mean(digit_explainer.predict(digits) == label) for label in (0, 1)]
    assert supports[0] != supports[1]
    for name, value in (("_MANY", 1), ("_RARE", float(np.mean(supports)))):
        monkeypatch.setattr(f"keras_mmil.rules.report.page.{name}", value)
    found = digit_explainer.report(digits, n_cases=0).html
    (rare,) = re.findall(r"<summary>1 more rule, which matches fewer.*?</details>", found, re.S)
    numbers = re.findall(r'data-number="(\d)"', found)
    assert sorted(numbers) == ["1", "2"]
    assert re.findall(r'data-number="(\d)"', rare) == [str(1 + int(np.argmin(supports)))]


def test_data_that_the_rules_have_seen_get_no_intervals(digit_explainer, digit_ids):
    found = digit_explainer.report(vectors(digit_ids), n_cases=0)
    text = text_of(found)
    assert "Figures are without intervals" in text
    assert "network accuracy" not in text  # without labels
    assert found.data["certificate"] is None
    assert found.data["cases"] == []


def test_what_the_network_was_trained_on(page, digit_explainer, digits):
    assert "What the network was trained on is not checked here." in text_of(page)
    others = digit_explainer.hashes(vectors(random_ids(20, seed=6)))
    found = text_of(digit_explainer.report(digits, n_cases=0, trained_on=others))
    assert "They have seen none of these top-bags." in found
    own = digit_explainer.hashes(digits)
    found = text_of(digit_explainer.report(digits, n_cases=0, trained_on=own))
    assert "Figures are without intervals" in found
    assert "the network was trained on" in found


@pytest.mark.slow
def test_without_data(churn_explainer):
    customers = random_customers(100, seed=12)
    for customer in customers:
        customer["orders"] = [{**order, "note": "top secret"} for order in customer["orders"]]
    shown, hidden = (
        churn_explainer.report(read(customers), include_data=include, n_cases=100)
        for include in (True, False)
    )
    assert "secret" in shown.html
    assert "secret" not in hidden.html
    assert "cases" not in hidden.data
    assert "some orders are bad" in text_of(hidden)


def test_what_looks_like_html_is_text(churn_explainer):
    customers = random_customers(60, seed=13)
    for customer in customers:
        customer["plan"] = NASTY
    found = churn_explainer.report(read(customers), show=lambda position: NASTY, title=NASTY)
    assert NASTY not in found.html
    assert found.html.count("<script") == 2
    assert NASTY in text_of(found)
    assert NASTY in data_of(found)["title"]


@pytest.mark.slow
def test_a_dataset_has_labels(churn_explainer):
    customers = [each for seed in (14, 15) for each in random_customers(100, seed)]
    y = np.array([churns(customer) for customer in customers])
    dataset = tf.data.Dataset.from_tensor_slices((read(customers), y)).batch(30)
    titles = [f["title"] for f in churn_explainer.report(dataset, n_cases=3).data["figures"]]
    assert titles[0] == "network accuracy"


def test_shown():
    assert markup("a < b") == "a &lt; b"
    image = markup(np.eye(3))
    assert image.startswith('<img alt="" src="data:image/png;base64,')
    assert markup('<svg onload="alert(1)">').startswith('<img alt="" src="data:image/svg+xml;')
    with pytest.raises(TypeError, match="shape \\(3,\\)"):
        markup(np.zeros(3))


def test_renderers(digit_explainer, digits):
    with pytest.raises(ValueError, match="'cloud', 'graph', 'image'"):
        digit_explainer.report(digits, show="movie")

    class Own(Renderer):
        def row(self, position):
            return "own " + "-".join(map(str, position))

    found = digit_explainer.report(digits, show=Own(digits), n_cases=2)
    index = found.data["cases"][1]["index"]
    assert f"own {index}-0" in text_of(found)
    images = tf.RaggedTensor.from_row_lengths(np.zeros((3, 2, 2), np.uint8), [2, 1])
    assert Images(images).row((0,)).count("<img") == 2


def test_renderers_of_several_bags(churn_explainer, customers):
    x = read(customers[:40])

    def named(name):
        return Plain(x, lambda position: f"{name} " + "-".join(map(str, position)))

    renderer = ByPath(x, {"": named("customer"), "visits": named("visit")})
    assert renderer.of("orders").row((3, 1)) == "1"
    found = churn_explainer.report(x, show=renderer, n_cases=3)
    index = found.data["cases"][0]["index"]
    text = text_of(found)
    assert f"visit {index}-0" in text
    assert f"customer {index}-" not in text
    cards = text.count("visit ")
    assert cards > text.count(f"visit {index}-")  # those that stand for clusters, too


def test_saved_atomically(page, tmp_path):
    path = page.save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == page.html
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert isinstance(page, Report)


def test_notebooks(digit_explainer, churn_explainer, digits):
    shown = digit_explainer._repr_html_()
    assert "positive ← o_" in shown
    assert digit_explainer._repr_mimebundle_()["text/html"] == shown
    assert type(digit_explainer)()._repr_html_().startswith("<pre")
    (explanation,) = digit_explainer.explain(digits[:1])
    assert html.escape(str(explanation)) in explanation._repr_html_()
    assert "product.kind = &#x27;electronics&#x27;" in churn_explainer.rules_._repr_html_()


# In a browser -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    yield from chromium()


@pytest.fixture(scope="module")
def opened(browser, page, tmp_path_factory):
    path = page.save(tmp_path_factory.mktemp("page") / "report.html")
    browser.get(path.as_uri())
    return browser


def shown_cases(driver):
    return [case for case in driver.find_elements("css selector", ".case") if case.is_displayed()]


def test_filters(opened, page):
    from selenium.webdriver.support.select import Select

    cases = page.data["cases"]
    assert len(shown_cases(opened)) == len(cases) == 12
    by_class = Select(opened.find_element("id", "by-class"))
    by_class.select_by_visible_text("positive")
    n_positive = sum(case["rules"] == "positive" for case in cases)
    assert len(shown_cases(opened)) == n_positive
    assert opened.find_element("id", "count").text == f"{n_positive} of 12 shown"
    by_class.select_by_visible_text("all")
    by_rule = Select(opened.find_element("id", "by-rule"))
    by_rule.select_by_visible_text("1")
    assert len(shown_cases(opened)) == sum(case["rule"] == 1 for case in cases)
    by_rule.select_by_visible_text("all")
    opened.find_element("id", "disagree").click()
    assert len(shown_cases(opened)) == sum(not case["agrees"] for case in cases)
    opened.find_element("id", "disagree").click()
    search = opened.find_element("id", "search")
    search.send_keys(f"top-bag {cases[3]['index']}:")
    assert len(shown_cases(opened)) == 1
    search.clear()
    assert len(shown_cases(opened)) == 12


def test_rename(opened):
    from selenium.webdriver.common.keys import Keys

    box = opened.find_element("css selector", ".card:not(.unused) .rename")
    key, name = box.get_attribute("data-rename"), box.get_attribute("value")
    everything = Keys.CONTROL + "a"
    box.send_keys(everything)
    box.send_keys("a <b>three</b>")
    places = opened.find_elements("css selector", f'.name[data-cluster="{key}"]')
    assert len(places) > 2
    assert {each.get_attribute("textContent") for each in places} == {"a <b>three</b>"}
    box.send_keys(everything)
    box.send_keys(name)
    assert {each.get_attribute("textContent") for each in places} == {name}


def test_keyboard(opened):
    """Every control can be reached by the tabulator, the link to the rules first."""
    reached = opened.execute_script(
        "return [...document.querySelectorAll('a, input, select, summary')]"
        ".every((each) => each.tabIndex === 0)"
    )
    assert reached


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_no_horizontal_scroll(opened, width):
    opened.set_window_size(width, 900)
    wide = opened.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide[0] <= wide[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(opened, scheme):
    """All texts have the contrast of WCAG AA, 4.5 to 1, with what is behind them."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    found = opened.execute_script(
        """
        const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
        const light = (c) => { const l = c.slice(0, 3).map((v) => { v /= 255;
          return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
          return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
        const behind = (e) => { for (; e; e = e.parentElement) {
          const c = rgb(getComputedStyle(e).backgroundColor);
          if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
        const bad = []; let seen = 0;
        for (const e of document.querySelectorAll('body *:not(svg *):not(script):not(style)')) {
          if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
          seen += 1;
          const [a, b] = [light(rgb(getComputedStyle(e).color)), light(behind(e))];
          const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
          if (ratio < 4.5) bad.push(`${e.tagName} ${e.className} ${ratio.toFixed(2)}`);
        }
        return [seen, bad];
        """
    )
    assert found[0] > 50
    assert found[1] == []


def test_no_errors_and_no_requests(opened):
    assert [entry["message"] for entry in opened.get_log("browser")] == []
    messages = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    urls = {
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    }
    assert urls
    assert all(url.startswith(("file://", "data:")) for url in urls), urls
