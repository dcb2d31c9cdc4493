"""Other ways to rank species that may have been overlooked in regions."""

import numpy as np
from joblib import Parallel, delayed
from sklearn.decomposition import NMF
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

__all__ = ["MODELS"]

_N_NEIGHBOURS = 25
# What Gaussian processes may be: widths of the kernel, km, and inverse variances of the prior.
_WIDTHS = 25.0, 50.0, 100.0
_PENALTIES = 0.1, 1.0, 10.0
_N_LANDMARKS = 400


def naive_hamming(flora, seed):
    """The share of the 25 most similar regions that a species was seen in: [regions, species]."""
    distances = flora.hamming_distances().astype(float)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :_N_NEIGHBOURS]
    return np.stack([flora.presence[neighbours].mean(axis=0) for neighbours in nearest])


def naive_euclidean(flora, seed):
    """The same of all regions within a distance, in which most regions have 25 others."""
    distances = flora.distances()
    np.fill_diagonal(distances, np.inf)
    radius = np.median(np.sort(distances, axis=1)[:, _N_NEIGHBOURS - 1])
    is_near = (distances <= radius).astype(np.float32)
    counts = np.maximum(is_near.sum(axis=1, keepdims=True), 1)
    return is_near @ flora.presence.astype(np.float32) / counts


def gaussian_process(flora, seed, species=slice(None)):
    """Probabilities of a Gaussian process of the coordinates, with logistic likelihood, a species.

    Of all species, or of those chosen: [regions, species].

    The kernel is approximated by landmarks; its width and the variance are those of the best
    likelihood, over every twentieth species, of regions that are left out, a tenth of them.
    """
    places = _kilometres(flora.coordinates)
    width, penalty = _best_kernel(places, flora.presence, seed)
    features = _kernel(width, len(places), seed).fit_transform(places)

    def probabilities(column):
        if column.all() or not column.any():
            return column.astype(float)
        return LogisticRegression(C=penalty).fit(features, column).predict_proba(features)[:, 1]

    columns = flora.presence.T[species]
    return np.stack(Parallel(-1)(delayed(probabilities)(column) for column in columns), axis=1)


def factorisation(flora, seed):
    """Non-negative matrix factorisation with 50 factors, by squared errors."""
    model = NMF(min(50, *flora.presence.shape), init="nndsvda", max_iter=400, random_state=seed)
    return model.fit_transform(flora.presence.astype(np.float32)) @ model.components_


MODELS = {
    "naive-hamming": naive_hamming,
    "naive-euclidean": naive_euclidean,
    "gaussian-process": gaussian_process,
    "factorisation": factorisation,
}


def _kilometres(coordinates):
    """Places on a plane, about where the data are: [regions, 2]."""
    latitude, longitude = np.radians(coordinates.astype(float)).T
    return 6371 * np.stack([latitude, longitude * np.cos(latitude.mean())], axis=1)


def _kernel(width, n_places, seed):
    n_landmarks = min(_N_LANDMARKS, n_places)
    return Nystroem(gamma=0.5 / width**2, n_components=n_landmarks, random_state=seed)


def _best_kernel(places, y, seed):
    """The width and the penalty with which species are likeliest in regions that are left out."""
    order = np.random.default_rng(seed).permutation(len(places))
    held_out, rest = np.split(order, [len(order) // 10])
    some = np.flatnonzero(y[rest].any(axis=0) & ~y[rest].all(axis=0))[::20]

    def losses(width):
        """The mean loss with each penalty."""
        features = _kernel(width, len(rest), seed).fit(places[rest])
        train, test = features.transform(places[rest]), features.transform(places[held_out])

        def loss(penalty, column):
            fitted = LogisticRegression(C=penalty).fit(train, column[rest])
            probabilities = fitted.predict_proba(test)[:, 1]
            return log_loss(column[held_out], probabilities, labels=[False, True])

        pairs = [(penalty, y[:, j]) for penalty in _PENALTIES for j in some]
        found = Parallel(-1)(delayed(loss)(*pair) for pair in pairs)
        return np.reshape(found, (len(_PENALTIES), -1)).mean(axis=1)

    table = np.stack([losses(width) for width in _WIDTHS])
    best = np.unravel_index(table.argmin(), table.shape)
    return _WIDTHS[best[0]], _PENALTIES[best[1]]
