"""The texts of the cards of pretrained networks, from what was measured and from `cards.toml`."""

import functools
import tomllib
from pathlib import Path

from scipy.stats import binomtest

__all__ = ["about", "render", "wilson"]

PROPORTIONS = {
    "test_accuracy": ("accuracy of the network", "test"),
    "rule_accuracy": ("accuracy of the rules", "rules_test"),
    "fidelity": ("fidelity of the rules to the network", "rules_test"),
}
LINES = 40  # of rules in words
OTHERS = {"map": "mean average precision of the network"}


@functools.cache
def about():
    """What is to be said of each network, by its name."""
    text = Path(__file__).with_name("cards.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def wilson(share, n):
    """The ends of Wilson's interval of 95 % of a share of n cases."""
    ends = binomtest(round(share * n), n).proportion_ci(0.95, method="wilson")
    return ends.low, ends.high


def render(facts):
    """Markdown.

    Args:
        facts: the content of `card.json`.
    """
    said, name = about()[facts["name"]], facts["name"]
    numbers = f"{facts['parameters']:,}"
    seen = f" ({said['test']})" if "test" in said else ""
    several = {metric: runs for metric, runs in facts["over_runs"].items() if runs["runs"] > 1}
    of_several = (
        " The last column is of networks that were trained in the same way with several seeds: "
        "mean, standard deviation and number of the recorded runs."
    )
    parts = [
        f"# {name}",
        f"{said['what']} A network of {numbers} numbers and its rules, in the package:",
        f'```python\nnetwork = zoo.load("{name}")\nnetwork.explain({said["input"]})\n```',
        said["use"],
        "## Data",
        said["data"],
        f"**Licence of the data.** {said['licence']} The files of the network hold "
        f"{said['inside']}, and nothing else of the data.",
        "## Training",
        f"`{facts['command']}`, at commit {facts['commit']}: {_sizes(facts['top_bags'])}. Packed "
        f"on {facts['date']} by keras-mmil {facts['library']}. {_packing(facts)} The rules were "
        "fitted to the packed network.",
        "## Figures",
        f"On test data that neither network nor rules were trained on{seen}.",
        _table(facts, several),
        "The intervals are Wilson's of 95 %, of this one network on these test data."
        + (of_several if several else ""),
        "## Rules",
        _rules(facts["rules"]),
        "## Limits",
        said["limits"],
        "## Not for",
        said["not_for"],
    ]
    return "\n\n".join(parts) + "\n"


def _sizes(sizes):
    names = {"train": "training", "valid": "validation", "test": "test"}
    (first, n), *others = ((names[part], sizes[part]) for part in names if sizes[part])
    return ", ".join([f"{n:,} top-bags for {first}", *(f"{n:,} for {name}" for name, n in others)])


def _packing(facts):
    rounded = {
        8: "Its large matrices were rounded to 8 bits a weight, all others to 16.",
        16: "Its weights were rounded to 16 bits.",
        32: "",
    }[facts["bits"]]
    if "tokens" not in facts:
        return rounded
    before, after = facts["tokens_before"], facts["tokens"]
    kept = f"All {after:,} tokens were kept."
    if after < before:
        kept = (
            f"Of {before:,} tokens, the {after:,} that change the outputs most were kept; the "
            "others are unknown to it."
        )
    return f"{kept} {rounded}"


def _table(facts, several):
    columns = ["figure", "value", "95 % interval", "most frequent class", "before packing"]
    columns += ["several seeds"] if several else []
    rows = [
        f"| {' | '.join(columns)} |",
        f"| --- {'| ---: ' * (len(columns) - 1)}|",
    ]
    for metric, figure in facts["figures"].items():
        if metric.endswith("_majority"):
            continue
        share = facts["figures"].get(f"{metric}_majority")
        name, ends = OTHERS.get(metric), ""
        if metric in PROPORTIONS:
            name, part = PROPORTIONS[metric]
            low, high = wilson(figure, facts["top_bags"][part])
            ends = f"{100 * low:.1f} to {100 * high:.1f} %"
        cells = [name, _percent(figure), ends, _percent(share), _percent(facts["before"][metric])]
        if several:
            runs = several.get(metric)
            mean = runs and f"{_percent(runs['mean'])} ± {100 * runs['std']:.2f} ({runs['runs']})"
            cells.append(mean or "")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _percent(fraction):
    return "" if fraction is None else f"{100 * fraction:.2f} %"


def _rules(rules):
    clusters = ", ".join(f"{n} of {words}" for words, n in rules["clusters"].items())
    numbers = ", ".join(f"{n} for {words}" for words, n in rules["numbers"].items())
    shown = "\n".join(rules["words"][:LINES])
    if (n_more := len(rules["words"]) - LINES) > 0:
        shown += f"\n… ({n_more} more lines)"
    return (
        f"Clusters: {clusters}. Rules: {numbers}. Their fidelity on validation data is "
        f"{_percent(rules['fidelity'])} (most frequent class: "
        f"{_percent(rules['fidelity_majority'])}). `print(network.explainer.rules_)`:\n\n"
        f"```text\n{shown}\n```"
    )
