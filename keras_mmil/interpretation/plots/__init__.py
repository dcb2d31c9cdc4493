"""Pictures of how rules were found, and of what their clusters stand for."""

from keras_mmil.interpretation.plots.maps import Maps, plot_maps
from keras_mmil.interpretation.plots.plots import plot_clouds, plot_correspondence, plot_grid

__all__ = ["Maps", "plot_clouds", "plot_correspondence", "plot_grid", "plot_maps"]
