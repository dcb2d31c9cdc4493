"""A Keras callback that reads the network as rules while it trains."""

import warnings
from typing import Any

import keras
from sklearn.exceptions import NotFittedError

from keras_mmil._support.checks import positive_int
from keras_mmil.rules.explainer import Explainer
from keras_mmil.rules.fitting.options import Options
from keras_mmil.rules.network.sources import TopBags
from keras_mmil.rules.storage import fingerprint

__all__ = ["RuleExtractor"]


class RuleExtractor(keras.callbacks.Callback):
    """Read a network as rules at the end of training, and every few epochs.

    The model is left as it is. Put this callback after those that change weights at the end of an
    epoch or of training, such as `EarlyStopping(restore_best_weights=True)`.

    What `Explainer.check` can tell is raised before the first epoch. An extraction that fails
    later, such as that of a network that has diverged, does not end the training, which would
    lose what it has learned: there is a warning, and `explainer_` raises the error.

    Args:
        x: top-bags to learn rules from, see `Explainer.fit`.
        validation_data: top-bags on which to choose the numbers of clusters; alone, or in a tuple
            with labels (and weights), as `Model.fit` takes them, which are not used.
        every: number of epochs between extractions; None for the end of training only. If given,
            `val_fidelity` is logged, and beside it `val_fidelity_majority`, the share of the most
            frequent class; NaN after epochs without extraction.
        **explainer_arguments: arguments of `Explainer`.

    Attributes:
        explainer_: the fitted `Explainer`.

    Raises:
        TypeError: if an argument is unknown.
        ValueError: if one is out of range.

    Example:

    >>> extractor = keras_mmil.RuleExtractor(x_train, validation_data=x_valid, max_clusters=10)
    >>> model.fit(x_train, y_train, epochs=100, callbacks=[extractor])
    >>> print(extractor.explainer_.rules_)
    """

    def __init__(
        self,
        x: TopBags,
        validation_data: TopBags | tuple[Any, ...] | None = None,
        every: int | None = None,
        **explainer_arguments: Any,
    ) -> None:
        super().__init__()
        Options(**explainer_arguments).check_arguments()
        self.x = x
        self.x_valid = validation_data[0] if isinstance(validation_data, tuple) else validation_data
        self.every = positive_int("every", every, optional=True)
        self.explainer_arguments = explainer_arguments
        self._explainer: Explainer | None = None
        self._error: Exception | None = None
        # Fingerprint of the weights that the explainer explains.
        self._read_weights: str | None = None

    @property
    def explainer_(self) -> Explainer:
        """The fitted `Explainer`.

        Raises:
            NotFittedError: before the first extraction.
            RuntimeError: if the last extraction failed, from the error that it failed with.
        """
        if self._error is not None:
            raise RuntimeError(
                "Expected the extraction of rules in training to succeed; `extract(model)` tries "
                f"again. Received: {_describe(self._error)}"
            ) from self._error
        if self._explainer is None:
            raise NotFittedError(
                "Expected training to have ended, or `extract(model)` to have been called. "
                "Received: explainer_=None"
            )
        return self._explainer

    def extract(self, model: keras.Model) -> Explainer:
        """Read a model as rules now.

        Returns:
            The fitted explainer, which is also `explainer_`.
        """
        self._forget()
        self._explainer = Explainer(**self.explainer_arguments).fit(model, self.x, self.x_valid)
        self._read_weights = fingerprint(model)
        return self._explainer

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Forget what was extracted in an earlier training, and check model and data.

        Raises:
            TypeError, ValueError: see `Explainer.check`.
        """
        self._forget()
        Explainer(**self.explainer_arguments).check(self.model, self.x, self.x_valid)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Extract every few epochs, and log the fidelity."""
        if self.every is None:
            return
        fidelity = majority = float("nan")
        if (epoch + 1) % self.every == 0 and self._try_to_extract():
            fidelity, majority = self.explainer_.fidelity_, self.explainer_.majority_
        if logs is not None:
            logs |= {"val_fidelity": fidelity, "val_fidelity_majority": majority}

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Extract, unless that was done with these weights."""
        if self._read_weights != fingerprint(self.model):
            self._try_to_extract()

    def _try_to_extract(self) -> bool:
        """Extract; or warn, and keep the error. Returns whether there are rules."""
        try:
            self.extract(self.model)
        except Exception as error:  # raised later by `explainer_`
            self._error = error
            warnings.warn(
                f"No rules were extracted, `explainer_` raises the error: {_describe(error)}",
                stacklevel=2,
            )
        return self._error is None

    def _forget(self) -> None:
        self._explainer = self._error = self._read_weights = None


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
