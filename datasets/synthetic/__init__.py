"""Made-up data whose rules are known: for tests, examples, and the first steps.

`load_citations`, `load_networks` and `load_flora` make what `keras_mmil.datasets` reads from files,
`load_churn` linked tables, `load_tickets` and `load_sensors` nested records; the other `load_...`
functions make bags, clouds or texts, and their labels.
"""

from keras_mmil._support.lazy import lazy

_HOMES = {
    "load_churn": "churn",
    "load_citations": "citations",
    "load_clouds": "clouds",
    "load_flora": "plants",
    "load_networks": "social",
    "load_offside": "points",
    "load_reviews": "opinions",
    "load_sensors": "sensors",
    "load_three_level": "points",
    "load_tickets": "tickets",
    "load_zero_and_no_two": "points",
    "offside_image_labels": "points",
    "offside_labels": "points",
    "three_level_labels": "points",
    "zero_and_no_two_labels": "points",
}
_MODULES = (
    "churn",
    "citations",
    "clouds",
    "opinions",
    "plants",
    "points",
    "sensors",
    "social",
    "tickets",
)

__all__ = [*_HOMES, *_MODULES]

__getattr__, __dir__ = lazy(__name__, {**_HOMES, **dict.fromkeys(_MODULES)}, __all__)
