"""A progress bar for work whose amount becomes known while it is done."""

import keras

__all__ = ["Progress"]

_SHARE = 0.3  # of what is left: what steps stand for that are announced together
_SHARE_OF_ONE = 0.02  # and a step whose number is not known


class Progress:
    """A progress bar that goes from 0 to 100 % once, however much work is found on the way.

    Args:
        verbose: 1 for a progress bar, 0 for none.
    """

    def __init__(self, verbose: int) -> None:
        self._bar = keras.utils.Progbar(100, verbose=verbose, unit_name="%")
        self._done = self._of_step = 0.0

    def expect(self, n: int | None) -> None:
        """Expect n more steps; None if that is not known."""
        left = 1 - self._done
        self._of_step = left * (_SHARE_OF_ONE if n is None else _SHARE / max(n, 1))

    def step(self) -> None:
        """Count a step as done."""
        self._done += min(self._of_step, (1 - self._done) / 2)
        self._bar.update(int(100 * self._done))

    def finish(self) -> None:
        """Fill the bar: all steps are done, or were not necessary."""
        self._bar.update(100, finalize=True)
