"""Pictures of how rules were found, of what their clusters stand for, and of top-bags."""

from keras_mmil.interpretation.plots.clouds import plot_clouds
from keras_mmil.interpretation.plots.correspondence import plot_correspondence
from keras_mmil.interpretation.plots.grid import plot_grid
from keras_mmil.interpretation.plots.maps import Maps, plot_maps
from keras_mmil.interpretation.plots.top_bags import plot_top_bag

__all__ = [
    "Maps",
    "plot_clouds",
    "plot_correspondence",
    "plot_grid",
    "plot_maps",
    "plot_top_bag",
]
