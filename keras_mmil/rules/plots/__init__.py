"""Pictures of the search for rules, of clusters, and of top-bags."""

from keras_mmil.rules.plots.clusters import plot_correspondence, plot_grid
from keras_mmil.rules.plots.maps import Maps, plot_maps
from keras_mmil.rules.plots.top_bags import plot_clouds, plot_top_bag

__all__ = ["Maps", "plot_clouds", "plot_correspondence", "plot_grid", "plot_maps", "plot_top_bag"]
