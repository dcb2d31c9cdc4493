"""What-if in reports: a page evaluates the rules of an estimator on records that one changes."""

import json

import numpy as np
import pytest
from chromium import chromium
from shops import fitted, shop

from keras_mmil import NestedClassifier
from keras_mmil.records import link
from keras_mmil.rules.export import _runtime

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    yield from chromium()


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """The page of a report on other records, and these."""
    from shops import KEYS

    rows = shop(200, seed=1)
    records = link(rows, "customers", KEYS)
    page = fitted()[0].report(records, "left")
    browser.get(page.save(tmp_path_factory.mktemp("page") / "report.html").as_uri())
    wait_for(browser, "return document.getElementById('what-if-json').value")
    return browser, records


def wait_for(browser, script):
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(browser, 10).until(lambda _: browser.execute_script(script))


def test_page_says_what_the_rules_say(opened):
    browser, records = opened
    script = """
        const done = arguments[0];
        const labelled = (rules) => ([i, [name, record]]) => [i, name, ruleOf(rules, record).label];
        unpacked("what-if-packed").then(({ rules, records }) =>
            done(Object.entries(records).map(labelled(rules))));"""
    found = browser.execute_async_script(script)
    places, names, labels = zip(*found, strict=True)
    assert list(map(int, places)) == list(range(200))
    assert list(names) == [str(i) for i in range(200)]  # their ids
    assert list(labels) == list(map(str, fitted()[0].predict(records, by="rules")))
    assert len(set(labels)) == 2


def state(browser):
    """The record as JSON, and what the page says of it."""
    text = browser.find_element("id", "what-if-json").get_property("value")
    return json.loads(text), browser.find_element("id", "what-if-result").text


def check(browser):
    """That the page says what Python says of the record in the form."""
    record, said = state(browser)
    rule = _runtime.rule_of(fitted()[0].rules_.on_records(), record)
    assert said.startswith(f"By the rules: {rule['label']}")
    assert f"rule {rule['number']}" in said
    return rule["label"]


def test_changes_are_seen(opened):
    """Members removed, copied and added, fields changed, a record pasted, and all taken back."""
    from selenium.webdriver.support.select import Select

    browser, records = opened
    predicted = fitted()[0].predict(records, by="rules")
    at = int(np.flatnonzero(predicted)[0])  # left: with toys, which are removed
    Select(browser.find_element("id", "what-if-case")).select_by_value(str(at))
    assert check(browser) == "True"
    record, _ = state(browser)
    assert "left" not in record
    assert "id" not in record["orders"][0]

    def click(label):
        element = browser.find_element("css selector", f'#what-if [aria-label="{label}"]')
        browser.execute_script("arguments[0].click()", element)

    def unfold():
        script = "for (const x of document.querySelectorAll('#what-if details')) x.open = true"
        browser.execute_script(script)
        wait_for(browser, "return document.querySelector('#what-if .buttons') !== null || true")

    n = len(record["orders"])
    for _ in range(n):
        unfold()
        click("Remove orders 1")
        check(browser)
    assert state(browser)[0]["orders"] == []
    assert check(browser) == "False"
    assert "instead of" in state(browser)[1]
    click("Add to orders")
    assert len(state(browser)[0]["orders"]) == 1
    check(browser)

    click_reset = browser.find_element("id", "what-if-reset")
    browser.execute_script("arguments[0].click()", click_reset)
    assert state(browser)[0] == record

    field = browser.find_element("css selector", "#what-if-record > label input[type=number]")
    field.clear()
    field.send_keys("12.5")
    assert state(browser)[0]["age"] == 12.5
    field.clear()
    check(browser)
    script = """
        const area = document.getElementById("what-if-json");
        area.value = arguments[0];
        area.dispatchEvent(new Event("change"));"""
    browser.execute_script(script, json.dumps({"orders": [{"items": [{}, {}, {}]}]}))
    assert len(state(browser)[0]["orders"][0]["items"]) == 3
    check(browser)
    browser.execute_script(script, "[1]")
    assert browser.execute_script("return !document.getElementById('what-if-json').validity.valid")


def test_rules_that_no_page_can_evaluate_are_named(tmp_path):
    days = [f"{i % 12 + 1:02}/{i % 28 + 1:02}/2024" for i in range(80)]
    records = [{"day": day, "late": day < "06"} for day in days]
    classifier = NestedClassifier(random_state=0, verbose=0, epochs=2).fit(records, "late")
    page = classifier.report(records, "late")
    assert "cannot be tried on changed records here" in page.html
    assert "&#39;day&#39;, read as month first" in page.html
    assert 'id="what-if"' not in page.html
