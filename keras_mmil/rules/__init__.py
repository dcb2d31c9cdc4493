"""Reading trained networks of bag-layers as symbolic rules."""

from keras_mmil.rules.evidence.certificate import UsedTopBagsError
from keras_mmil.rules.explainer import Explainer
from keras_mmil.rules.plots import (
    Maps,
    plot_clouds,
    plot_correspondence,
    plot_grid,
    plot_maps,
    plot_top_bag,
)
from keras_mmil.rules.report.background import Background
from keras_mmil.rules.rule_extractor import RuleExtractor
from keras_mmil.rules.symbols import symbolize

__all__ = [
    "Background",
    "Explainer",
    "Maps",
    "RuleExtractor",
    "UsedTopBagsError",
    "plot_clouds",
    "plot_correspondence",
    "plot_grid",
    "plot_maps",
    "plot_top_bag",
    "symbolize",
]
