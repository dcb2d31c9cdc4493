"""Pictures of the results, which `benchmarks/report.py` draws."""

import re

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from keras_mmil._support.files import atomic_write

__all__ = ["draw_growth", "draw_hops", "draw_ranking", "draw_steps", "save"]

OURS = "keras-mmil"
COLOURS = {OURS: "#1f5fbf", "flat": "#444444", "pyg-pointer": "#d1730f"}
OTHERS = "#b5b5b5"
TITLES = {
    "mnist": "MNIST bags",
    "text": "text: trigrams of words",
    "ego": "ego-networks",
    "collab": "COLLAB",
}


def draw_steps(records):
    """Milliseconds of a training step of every competitor, a panel for each workload."""
    records = [r for r in records if r["bag_scale"] == r["batch_scale"] == 1]
    workloads = [name for name in TITLES if any(r["model"] == name for r in records)]
    figure, panels = plt.subplots(
        1, len(workloads), figsize=(3.1 * len(workloads), 2.6), squeeze=False
    )
    for panel, workload in zip(panels[0], workloads, strict=True):
        of_workload = [r for r in records if r["model"] == workload]
        times = {OURS: min(r["ms"] for r in of_workload)}
        times |= {r["reference"]: r["reference_ms"] for r in of_workload}
        names = sorted(times, key=times.get, reverse=True)
        bars = panel.barh(
            names,
            [times[name] for name in names],
            color=[COLOURS[OURS] if name == OURS else OTHERS for name in names],
        )
        panel.bar_label(bars, [f"{times[name]:,.0f}" for name in names], padding=3, fontsize=8)
        panel.set_title(TITLES[workload], fontsize=10, loc="left")
        panel.margins(x=0.22)
        panel.xaxis.set_visible(False)
        panel.tick_params(left=False, labelsize=8)
        panel.spines[["top", "right", "bottom", "left"]].set_visible(False)
    figure.suptitle("Milliseconds of a training step, two cores (less is better)", fontsize=11)
    figure.tight_layout()
    return figure


def draw_growth(records):
    """Milliseconds of a step for larger bags, and for larger batches."""
    workloads = [name for name in TITLES if any(r["model"] == name for r in records)]
    figure, panels = plt.subplots(
        2, len(workloads), figsize=(3.1 * len(workloads), 5), squeeze=False, sharex=True
    )
    scales = (("bag_scale", "batch_scale", "bags"), ("batch_scale", "bag_scale", "batches"))
    for row, (scale, other, what) in zip(panels, scales, strict=True):
        for panel, workload in zip(row, workloads, strict=True):
            chosen = [r for r in records if r["model"] == workload and r[other] == 1]
            if len({r[scale] for r in chosen}) < 2:
                panel.set_axis_off()  # real bags are as large as they are
                continue
            for name in COLOURS:
                times = {
                    r[scale]: r["ms"] if name == OURS else r["reference_ms"]
                    for r in chosen
                    if name in (OURS, r["reference"])
                }
                points = sorted(times)
                panel.plot(
                    points, [times[x] for x in points], "o-", color=COLOURS[name], label=name
                )
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.set_xticks([1, 4, 16], ["1x", "4x", "16x"])
            panel.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
            panel.yaxis.set_major_formatter("{x:,.0f}")
            panel.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
            title = TITLES[workload].partition(":")[0]
            panel.set_title(f"{title}, larger {what}", fontsize=9, loc="left")
            panel.tick_params(labelsize=8, labelbottom=True)
            panel.grid(axis="y", alpha=0.3)
            panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("ms of a step", fontsize=9)
    panels[1, 0].set_ylabel("ms of a step", fontsize=9)
    panels[0, 0].legend(fontsize=8, frameon=False)
    figure.tight_layout()
    return figure


def draw_hops(records):
    """Rows and milliseconds of a step against hops, a column for each data set."""
    data = list(dict.fromkeys(r["experiment"] for r in records))
    figure, panels = plt.subplots(
        2, len(data), figsize=(3.1 * len(data), 5), squeeze=False, sharex=True
    )
    lines = {
        "nested_rows": ("nested rows", "#444444"),
        "batch_rows": ("rows of a batch", "#d1730f"),
        "computed_rows": ("computed of a batch", COLOURS[OURS]),
    }
    for (above, below), name in zip(panels.T, data, strict=True):
        of_data = [r for r in records if r["experiment"] == name]
        above.axhline(of_data[0]["rows"], color=OTHERS, lw=1, label="rows of the tables")
        for model, style in zip(
            dict.fromkeys(r["model"] for r in of_data), ("o-", "o:"), strict=False
        ):
            chosen = {int(r["variant"].split()[0]): r for r in of_data if r["model"] == model}
            hops = sorted(chosen)
            for field, (label, colour) in lines.items():
                points = [(x, np.sum(chosen[x][field])) for x in hops if field in chosen[x]]
                above.plot(
                    *np.transpose(points), style, color=colour, ms=4, label=f"{label}, {model}"
                )
            points = [(x, chosen[x]["mean"]) for x in hops if "mean" in chosen[x]]
            below.plot(*np.transpose(points), style, color=COLOURS[OURS], ms=4, label=model)
        above.set_title(name.removeprefix("hops of "), fontsize=10, loc="left")
        below.set_xlabel("hops", fontsize=9)
        above.set_yscale("log")
        below.set_ylim(bottom=0)
        for panel in (above, below):
            panel.set_xticks(sorted({int(r["variant"].split()[0]) for r in of_data}))
            panel.tick_params(labelsize=8)
            panel.grid(axis="y", alpha=0.3)
            panel.spines[["top", "right"]].set_visible(False)
    panels[0, 0].set_ylabel("rows", fontsize=9)
    panels[1, 0].set_ylabel("ms of a step", fontsize=9)
    panels[0, -1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    panels[1, -1].legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    return figure


def draw_ranking(records):
    """How well models rank overlooked species, by how many are overlooked.

    Other forms of the data, such as P5-masked, are left out.
    """
    curves = {}
    for record in records:
        if record["metric"] == "map" and re.fullmatch(r"P\d+", record["variant"]):
            point = int(record["variant"][1:]), record["mean"], record["std"]
            curves.setdefault(record["model"], []).append(point)

    def highest(model):
        return max(mean for _, mean, _ in curves[model])

    figure, panel = plt.subplots(figsize=(6.4, 3.8))
    for model in sorted(curves, key=highest, reverse=True):
        shares, means, spreads = zip(*sorted(curves[model]), strict=True)
        style = "o-" if model in ("mmil", "mil") else "o--"
        panel.errorbar(shares, means, spreads, fmt=style, capsize=3, markersize=4, label=model)
    panel.set_xlabel("overlooked, % of each species' regions", fontsize=9)
    panel.set_ylabel("mAP (more is better)", fontsize=9)
    panel.set_xticks(sorted({share for points in curves.values() for share, *_ in points}))
    panel.tick_params(labelsize=8)
    panel.grid(axis="y", alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    return figure


def save(figure, path):
    """Write a figure as PNG, atomically."""
    path.parent.mkdir(exist_ok=True)
    with atomic_write(path) as part:
        figure.savefig(part, dpi=110)
    plt.close(figure)
