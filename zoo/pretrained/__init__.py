"""Trained networks with their rules and cards, in files of the package."""

from keras_mmil.zoo.pretrained.cards import Card, card
from keras_mmil.zoo.pretrained.networks import Pretrained, load

__all__ = ["Card", "Pretrained", "card", "load"]
