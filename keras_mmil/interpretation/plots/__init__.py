"""Pictures of how rules were found, and of what their clusters stand for."""

from keras_mmil.interpretation.plots.clouds import plot_clouds
from keras_mmil.interpretation.plots.correspondence import plot_correspondence
from keras_mmil.interpretation.plots.grid import plot_grid
from keras_mmil.interpretation.plots.maps import Maps, plot_maps

__all__ = ["Maps", "plot_clouds", "plot_correspondence", "plot_grid", "plot_maps"]
