"""A progress bar for work whose amount becomes known while it is done."""

import keras

__all__ = ["Progress"]


class Progress:
    """A progress bar of steps.

    Args:
        verbose: 1 for a progress bar, 0 for none.
    """

    def __init__(self, verbose: int) -> None:
        self._bar = keras.utils.Progbar(0, verbose=verbose, unit_name="step")
        self._done = 0

    def expect(self, n: int | None) -> None:
        """Expect n more steps; None if that is not known, nor the total from then on."""
        is_known = n is not None and self._bar.target is not None
        self._bar.target = self._bar.target + n if is_known else None

    def step(self) -> None:
        """Count a step as done."""
        self._done += 1
        self._bar.update(self._done)

    def finish(self) -> None:
        """Fill the bar: all steps are done, or were not necessary."""
        done = self._done if self._bar.target is None else self._bar.target
        self._bar.update(done, finalize=True)
