"""A Keras callback that reads the network as rules while it trains."""

import keras
from sklearn.exceptions import NotFittedError

from keras_mmil._checks import positive_int
from keras_mmil.interpretation.explainer import Explainer
from keras_mmil.interpretation.storage import fingerprint

__all__ = ["RuleExtractor"]


class RuleExtractor(keras.callbacks.Callback):
    """Read a network as rules at the end of training, and every few epochs.

    The model is left as it is. Put this callback after those that change weights at the end of an
    epoch or of training, such as `EarlyStopping(restore_best_weights=True)`.

    Args:
        x: top-bags to learn rules from, see `Explainer.fit`.
        validation_data: top-bags on which to choose the numbers of clusters; alone, or in a tuple
            with labels (and weights), as `Model.fit` takes them, which are not used.
        every: number of epochs between extractions; None for the end of training only. If given,
            `val_fidelity` is logged: NaN after epochs without extraction.
        **explainer_arguments: arguments of `Explainer`.

    Attributes:
        explainer_: the fitted `Explainer`.

    Example:

    >>> extractor = keras_mmil.RuleExtractor(x_train, validation_data=x_valid, max_clusters=10)
    >>> model.fit(x_train, y_train, epochs=100, callbacks=[extractor])
    >>> print(extractor.explainer_.rules_)
    """

    def __init__(self, x, validation_data=None, every=None, **explainer_arguments):
        super().__init__()
        Explainer(**explainer_arguments)  # a wrong name is better found before training
        self.x = x
        self.x_valid = validation_data[0] if isinstance(validation_data, tuple) else validation_data
        self.every = positive_int("every", every, optional=True)
        self.explainer_arguments = explainer_arguments
        self._extracted = None  # the explainer, and the fingerprint of the weights it explains

    @property
    def explainer_(self):
        """The fitted `Explainer`.

        Raises:
            NotFittedError: before the first extraction.
        """
        if self._extracted is None:
            raise NotFittedError(
                "Expected training to have ended, or `extract(model)` to have been called. "
                "Received: explainer_=None"
            )
        return self._extracted[0]

    def extract(self, model):
        """Read a model as rules now.

        Returns:
            The `Explainer`, which is also `explainer_`.
        """
        explainer = Explainer(**self.explainer_arguments).fit(model, self.x, self.x_valid)
        self._extracted = explainer, fingerprint(model)
        return explainer

    def on_train_begin(self, logs=None):
        """Forget what was extracted in an earlier training."""
        self._extracted = None

    def on_epoch_end(self, epoch, logs=None):
        """Extract every few epochs, and log the fidelity."""
        if self.every is None:
            return
        fidelity = float("nan")
        if (epoch + 1) % self.every == 0:
            fidelity = self.extract(self.model).fidelity_
        if logs is not None:
            logs["val_fidelity"] = fidelity

    def on_train_end(self, logs=None):
        """Extract, unless these weights were read already."""
        if self._extracted is None or self._extracted[1] != fingerprint(self.model):
            self.extract(self.model)
