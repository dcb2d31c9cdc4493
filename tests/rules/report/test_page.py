"""The report: what is on the page, and how it behaves in a browser."""

import base64
import html
import json
import re
import zlib

import numpy as np
import pytest
import tensorflow as tf
from chromium import chromium
from digit_networks import random_ids, vectors
from record_networks import churns, is_bad, random_customers, read

from keras_mmil.rules.report.background import Background
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
    """The data in a page, without the codes of clusters and the pictures."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.html)
    for packed in re.findall(r'id="packed">(.*?)</script>', page.html):
        cases = zlib.decompress(base64.b64decode(packed)).decode()
        found = f'{found[:-1]},"cases":{cases}}}'
    return without_pictures(json.loads(re.sub("\ue000[0-9.]+\ue001", "", found)))


def without_pictures(value):
    if isinstance(value, dict):
        return {k: without_pictures(each) for k, each in value.items() if k != "picture"}
    return [without_pictures(each) for each in value] if isinstance(value, list) else value


def text_of(page):
    body = page.html[page.html.index("<body>") : page.html.index("<script type")]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", body)))


def test_figures_are_those_of_the_explainer(page, digit_explainer, digits):
    y = np.arange(150) % 2
    certificate = digit_explainer.certify(digits, y)
    found = {each["title"]: each for each in page.data["figures"]}
    assert list(found) == [
        "network accuracy",
        "rule accuracy",
        "most frequent class",
        "fidelity",
        "deletion test",
    ]
    for title, share in (("fidelity", "fidelity"), ("rule accuracy", "accuracy")):
        exact = getattr(certificate, share)
        ends = found[title]["share"], found[title]["low"], found[title]["high"]
        assert ends == (exact.estimate, exact.low, exact.high)
    assert found["most frequent class"]["share"] == 0.5
    assert "constant rules" in found["fidelity"]["note"]
    assert data_of(page) == json.loads(json.dumps(page.data))


def test_figures_of_network_rules_and_both_are_told_apart(rough):
    page = rough.explainer.report(rough.x, rough.y, n_cases=0)
    found = {each["title"]: each["share"] for each in page.data["figures"]}
    expected = {
        "network accuracy": np.mean(rough.network == rough.y),
        "rule accuracy": np.mean(rough.rules == rough.y),
        "fidelity": np.mean(rough.rules == rough.network),
    }
    assert {title: found[title] for title in expected} == expected
    assert len(set(expected.values())) == 3
    right, _, agrees = (f"{100 * share:.1f} %" for share in expected.values())
    most = f"{100 * max(np.mean(rough.y), 1 - np.mean(rough.y)):.1f} %"
    assert page.data["headline"] == (
        f"The network is right on {right} of 150 top-bags "
        f"(always the most frequent class: {most}), "
        f"and {len(page.data['rules'])} rules agree with it on {agrees}."
    )


def test_scores_against_loops(rough):
    """Confusion, recall, precision, AUC and calibration, by counting."""
    page = rough.explainer.report(rough.x, rough.y, n_cases=0)
    scores, truth = page.data["scores"], rough.y
    for name, said in (("network", rough.network), ("rules", rough.rules)):
        for label in (0, 1):
            row = [int(np.sum((truth == label) & (said == other))) for other in (0, 1)]
            assert scores["confusion"][name][label] == row
            recall, precision = (scores[each][name][label] for each in ("recall", "precision"))
            assert recall["estimate"] == row[label] / sum(row)
            assert recall["low"] < recall["estimate"] < recall["high"]
            assert precision["estimate"] == np.mean(truth[said == label] == label)
    outputs = rough.explainer._network.model.predict(rough.x, verbose=0)[:, 0]
    pairs = [(a, b) for a in outputs[truth == 1] for b in outputs[truth == 0]]
    area = np.mean([(a > b) + 0.5 * (a == b) for a, b in pairs])
    np.testing.assert_allclose(scores["auc"], area)
    bins = scores["calibration"]["bins"]
    assert sum(each["observed"]["n"] for each in bins) == len(truth)
    error = 0.0
    for each in bins:
        inside = (outputs >= each["from"]) & (outputs < each["to"])
        np.testing.assert_allclose(each["mean"], outputs[inside].mean(), rtol=1e-5)
        assert each["observed"]["estimate"] == truth[inside].mean()
        error += abs(outputs[inside].mean() - truth[inside].mean()) * inside.mean()
    np.testing.assert_allclose(scores["calibration"]["error"], error, rtol=1e-4)


def test_where_rules_look(churn_explainer, customers):
    """Counts of the diagram, by counting."""
    page = churn_explainer.report(read(customers), n_cases=0)
    top = page.data["diagram"]
    assert (top["name"], top["n"]) == ("records", len(customers))
    parts = {each["name"]: each for each in top["parts"]}
    orders = [order for customer in customers for order in customer["orders"]]
    assert parts["orders"]["n"] == len(orders)
    assert parts["visits"]["n"] == sum(len(customer["visits"]) for customer in customers)
    (items,) = parts["orders"]["parts"]
    assert items["n"] == sum(len(order["items"]) for order in orders)
    bad = next(each for each in parts["orders"]["clusters"] if each["name"] == "bad")
    assert bad["n"] == sum(map(is_bad, orders))
    conditions = {each["text"]: each for each in parts["orders"]["conditions"]}
    n_bad = sum(any(map(is_bad, customer["orders"])) for customer in customers)
    assert conditions["some orders are bad"]["n"] == n_bad
    numbers = conditions["some orders are bad"]["rules"]
    rules = {rule["number"]: rule for rule in page.data["rules"]}
    assert numbers
    assert all("orders" in rules[number]["text"] for number in numbers)


def test_forms_say_the_same(rough, tmp_path):
    """HTML, JSON and Markdown are of one structure of data."""
    background = Background(
        names=[f"T-{i}" for i in range(len(rough.y))],
        baselines={"flat forest": 1 - rough.network[:, None] * 1.0},
        tried=[{"": "majority", "accuracy": "50.0 %"}, {"": "a|b", "accuracy": None}],
        advice=["Mind the <gap>."],
        history={"loss": [3.0, 2.0, 2.5], "val_loss": [3.0, 2.5, 2.75]},
        left_out={"id": "identifier: by its name"},
    )
    page = rough.explainer.report(rough.x, rough.y, background=background, about=["Made up."])
    data = page.data
    assert json.loads(page.to_json()) == json.loads(json.dumps(data)) == data_of(page)
    assert page.save(tmp_path / "r.json").read_text(encoding="utf-8") == page.to_json()
    markdown = page.save(tmp_path / "r.md").read_text(encoding="utf-8")
    assert markdown == page.to_markdown()
    assert [case["name"] for case in data["cases"]] == background.names
    flat = next(each for each in data["figures"] if each["title"] == "accuracy of a flat forest")
    assert flat["share"] == np.mean((rough.network == 0) == rough.y)
    said = [data["title"], data["headline"], *data["about"], *data["notes"], "T-149", "a|b"]
    said += [each["title"] for each in data["figures"]]
    said += [f"{100 * each['share']:.1f} %" for each in data["figures"]]
    said += [rule["text"] for rule in data["rules"]]
    said += [each["text"] for part in data["diagram"]["parts"] for each in part["conditions"]]
    said += ["identifier: by its name", "Mind the <gap>.", f"AUC {data['scores']['auc']:.3f}"]
    said += [str(value) for value in data["made"].values()]
    shown = {
        "html": text_of(page).replace("\u00a0", " ") + json.dumps(data_of(page)["cases"]),
        "markdown": html.unescape(markdown.replace("\\", "")),
    }
    for text in said:
        for form, whole in shown.items():
            assert " ".join(text.split()) in whole.replace(", 95 %", ""), (form, text)
    for n in (n for row in data["scores"]["confusion"]["rules"] for n in row):
        assert f"| {n} |" in markdown
        assert f">{n}</td>" in page.html
    assert "| 2 | 2 | 2.5 |" in markdown  # the second epoch
    with pytest.raises(ValueError, match=r"names of 150 top-bags\. Received: 1"):
        rough.explainer.report(rough.x, background=Background(names=["a"]))


def test_a_large_page_is_small(digit_explainer, monkeypatch):
    """All of 2,000 are listed; of many, those of each rule first."""
    x = vectors(random_ids(2100, seed=8))
    page = digit_explainer.report(x)
    assert len(page.data["cases"]) == 2000
    assert len(page.html.encode()) < 2_000_000
    assert "2,000 of 2,100 top-bags" in page.html
    for name, value in (("_MOST_BYTES", 1_500), ("_AT_ONCE", 4)):
        monkeypatch.setattr(f"keras_mmil.rules.report.cases.{name}", value)
    small = digit_explainer.report(x, n_cases=40)
    cases = small.data["cases"]
    with_record = [case for case in cases if "record" in case]
    assert 0 < len(with_record) < len(cases) == 40
    assert {case["rule"] for case in with_record} == {1, 2}
    assert f"{40 - len(with_record)} of them are without what is in them" in small.html


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
    assert "secret" in shown.to_json()
    assert "secret" not in hidden.to_json() + hidden.html
    assert "packed" not in hidden.html.partition("<body>")[2].partition("<script>")[0]
    assert "cases" not in hidden.data
    assert "some orders are bad" in text_of(hidden)


def test_what_looks_like_html_is_text(churn_explainer):
    customers = random_customers(60, seed=13)
    for customer in customers:
        customer["plan"] = NASTY
    found = churn_explainer.report(read(customers), show=lambda position: NASTY, title=NASTY)
    assert NASTY not in found.html
    assert found.html.count("<script") == 3
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
    assert f"own {index}-0" in json.dumps(found.data["cases"][1])
    images = tf.RaggedTensor.from_row_lengths(np.zeros((3, 2, 2), np.uint8), [2, 1])
    assert Images(images).row((0,)).count("<img") == 2


def test_renderers_of_several_bags(churn_explainer, customers):
    x = read(customers[:40])

    def named(name):
        return Plain(x, lambda position: f"{name} " + "-".join(map(str, position)))

    renderer = ByPath(x, {"": named("customer"), "visits": named("visit")})
    assert renderer.of("orders").row((3, 1)) == "1"
    found = churn_explainer.report(x, show=renderer, n_cases=3)
    text = json.dumps(found.data["cases"])
    assert re.search(r'"visit \d+-\d"', text)
    assert not re.search(r'"customer \d+-', text)
    assert "visit " in text_of(found)  # those that stand for clusters


def test_saved_atomically(page, tmp_path):
    path = page.save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == page.html
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    assert isinstance(page, Report)


def test_notebooks(digit_explainer, churn_explainer, digits):
    shown = digit_explainer._repr_html_()
    assert "positive if" in shown
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
    from selenium.webdriver.support.ui import WebDriverWait

    ready = "return document.getElementById('count').textContent"  # once cases are unpacked
    WebDriverWait(driver, 10).until(lambda _: driver.execute_script(ready))
    return driver.find_elements("css selector", ".case")


def choose(driver, name, text):
    from selenium.webdriver.support.select import Select

    Select(driver.find_element("id", name)).select_by_visible_text(text)


def test_filters(opened, page):
    cases = page.data["cases"]
    assert len(shown_cases(opened)) == len(cases) == 12
    choose(opened, "by-class", "positive")
    n_positive = sum(case["rules"] == "positive" for case in cases)
    assert len(shown_cases(opened)) == n_positive
    assert opened.find_element("id", "count").text == f"{n_positive} of 12 shown"
    choose(opened, "by-class", "all")
    choose(opened, "by-rule", "1")
    assert len(shown_cases(opened)) == sum(case["rule"] == 1 for case in cases)
    choose(opened, "by-rule", "all")
    for which, is_it in (
        ("rules and network disagree", lambda case: not case["agrees"]),
        ("the network is wrong", lambda case: case["network"] != case["truth"]),
        ("the rules are wrong", lambda case: case["rules"] != case["truth"]),
    ):
        choose(opened, "which", which)
        expected = [str(case["index"]) for case in cases if is_it(case)]
        found = [case.get_attribute("data-index") for case in shown_cases(opened)]
        assert found == expected, which
    choose(opened, "which", "all")
    search = opened.find_element("id", "search")
    search.send_keys("no such thing")
    assert shown_cases(opened) == []
    assert opened.find_element("id", "page").text == "none"
    search.clear()
    search.send_keys(" ")
    assert len(shown_cases(opened)) == 12


def test_pages_of_cases(browser, rough, tmp_path):
    """All cases are on some page, with what is in them, also of what looks like HTML."""
    from selenium.webdriver.support.ui import WebDriverWait

    names = [f"<b>T-{i}</b>" for i in range(len(rough.y))]
    page = rough.explainer.report(rough.x, rough.y, background=Background(names=names))
    browser.get(page.save(tmp_path / "page.html").as_uri())
    seen = []
    while True:
        seen += [case.find_element("css selector", ".key").text for case in shown_cases(browser)]
        if not browser.find_element("id", "next").is_enabled():
            break
        browser.find_element("id", "next").click()
    assert seen == names
    browser.find_element("id", "previous").click()
    first = page.data["cases"][120]
    assert browser.find_element("id", "page").text == "121 to 140 of 150"
    summary = shown_cases(browser)[0]
    summary.find_element("css selector", "summary").send_keys("\n")  # by the keyboard
    WebDriverWait(browser, 5).until(lambda _: summary.find_elements("css selector", ".record"))
    (rule,) = [each for each in page.data["rules"] if each["number"] == first["rule"]]
    text = " ".join(summary.text.split())
    assert f"Rule {first['rule']}: {rule['class']} {rule['text']}" in text
    for group in first["record"]["groups"]:
        assert group["title"] in text
    browser.find_element("id", "search").send_keys("T-77<")
    assert [case.get_attribute("data-index") for case in shown_cases(browser)] == ["77"]


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
        const behind = (e) => { if (!e) return [255, 255, 255];
          const [r, g, b, alpha = 1] = rgb(getComputedStyle(e).backgroundColor);
          if (alpha === 1) return [r, g, b];
          const below = behind(e.parentElement);
          return [r, g, b].map((v, i) => alpha * v + (1 - alpha) * below[i]); };
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
