"""Learners that read linked tables or sequences of vectors, for nested records.

YDF reads each bag as a sequence of vectors; Khiops and getML make aggregates of linked tables on
their own, and getML trains XGBoost on them. All with their defaults. They need other versions of
pandas than each other, so install them in an environment of their own:
`pip install ydf khiops getml==1.5.1 pandas==2.3.3`.
"""

import numpy as np
import pandas as pd

__all__ = ["LEARNERS", "FastProp", "Khiops", "Sequences", "tables"]

_MOST = 30  # categories or words of a field, as columns of vectors


def tables(records, without):
    """The records, and the members of the bags of each path, as tables.

    Those of a path have a column of keys for each level: "key0" of the record, "key1" of the member
    of its bag, and so on.

    Args:
        records: dicts.
        without: the name of the target, which is left out.
    """
    rows = {"": []}

    def visit(part, path, keys, row):
        for name, value in part.items():
            inner = f"{path}.{name}" if path else name
            if isinstance(value, dict):
                visit(value, inner, keys, row)
            elif isinstance(value, list | tuple):
                own = rows.setdefault(inner, [])
                for i, member in enumerate(value):
                    of_member = {f"key{j}": key for j, key in enumerate((*keys, i))}
                    own.append(of_member)
                    each = member if isinstance(member, dict) else {"value": member}
                    visit(each, inner, (*keys, i), of_member)
            elif value is not None:
                row[inner] = value

    for i, record in enumerate(records):
        row = {"key0": i}
        rows[""].append(row)
        visit({k: v for k, v in record.items() if k != without}, "", (i,), row)
    return {path: pd.DataFrame(some) for path, some in rows.items()}


class Sequences:
    """Boosted trees of YDF on sequences of vectors: numbers, and indicators of categories."""

    def __init__(self, target, seed):
        self._target, self._seed = target, seed

    def fit(self, records, labels):
        """Choose columns, and train."""
        import ydf

        found = tables(records, self._target)
        self._columns = {path: list(_columns(table)) for path, table in found.items()}
        data = self._data(found, len(records))
        features = [ydf.Column(name, _semantic(ydf, values)) for name, values in data.items()]
        learner = ydf.GradientBoostedTreesLearner(
            label="label", features=features, random_seed=self._seed, num_threads=1
        )
        self.classes_ = np.unique(labels)
        ydf.verbose(0)
        self._model = learner.train(data | {"label": np.asarray(labels).astype(str)})
        self._order = [list(self._model.label_classes()).index(str(x)) for x in self.classes_]
        return self

    def predict_proba(self, records):
        """Probabilities of the classes."""
        data = self._data(tables(records, self._target), len(records))
        found = self._model.predict(data)
        if found.ndim == 1:
            found = np.stack([1 - found, found], axis=1)
        return found[:, self._order]

    def _data(self, found, n):
        data = {}
        for path, columns in self._columns.items():
            table = found.get(path, pd.DataFrame({"key0": []}))
            parts = [_values(table, name, value) for name, value in columns]
            if path == "":
                names = (f"{name}={value}" for name, value in columns)
                data |= dict(zip(names, parts, strict=True))
                continue
            matrix = np.stack([*parts, np.ones(len(table), np.float32)], axis=1)
            ends = np.cumsum(np.bincount(table["key0"].astype(int), minlength=n))
            data[path] = np.split(matrix.astype(np.float32), ends[:-1])
        return data


def _keys(table):
    """The names of the columns of keys."""
    return [name for name in table.columns if name[:3] == "key" and name[3:].isdigit()]


def _columns(table):
    for name in table.columns.drop(_keys(table)):
        if pd.api.types.is_numeric_dtype(table[name]):
            yield name, None
        else:
            for value in table[name].astype(str).value_counts().index[:_MOST]:
                yield name, value


def _values(table, name, value):
    """Numbers, NaN where missing, or whether a value is this one."""
    if name not in table:
        return np.full(len(table), np.nan, np.float32)
    if value is None:
        return pd.to_numeric(table[name], errors="coerce").to_numpy(np.float32)
    return (table[name].astype(str) == value).to_numpy(np.float32)


def _semantic(ydf, values):
    is_sequence = isinstance(values, list)
    return ydf.Semantic.NUMERICAL_VECTOR_SEQUENCE if is_sequence else ydf.Semantic.NUMERICAL


class Khiops:
    """Khiops on linked tables, with 200 aggregates that it makes."""

    def __init__(self, target, seed):
        self._target = target

    def fit(self, records, labels):
        """Train."""
        from khiops.sklearn import KhiopsClassifier

        self._known = tables(records, self._target)
        self._model = KhiopsClassifier(n_features=200)
        self._model.fit(self._spec(records), np.asarray(labels).astype(str))
        self.classes_ = np.asarray(self._model.classes_)
        return self

    def predict_proba(self, records):
        """Probabilities of the classes."""
        return np.asarray(self._model.predict_proba(self._spec(records)))

    def _spec(self, records):
        found = tables(records, self._target)
        parts = {path: found.get(path, pd.DataFrame()) for path in self._known}
        parts = {
            path: table.reindex(columns=self._known[path].columns) for path, table in parts.items()
        }

        inner = {
            _place(path, parts): (_named(table), _keys(table))
            for path, table in parts.items()
            if path
        }
        return {"main_table": (_named(parts[""]), ["key0"]), "additional_data_tables": inner}


def _named(table):
    """With names that Khiops takes."""
    return table.rename(columns=_flat)


def _place(path, parts):
    """The place of a table below the main one: "orders/items" of "orders.items"."""
    above = [other for other in parts if other and path.startswith(f"{other}.")]
    names = [*sorted(above, key=len), path]
    return "/".join(map(_flat, names))


class FastProp:
    """getML's FastProp and XGBoost on linked tables."""

    def __init__(self, target, seed):
        self._target, self._seed = target, seed

    def fit(self, records, labels):
        """Train: a target for each class."""
        import getml

        if not getml.engine.is_engine_alive():
            getml.engine.launch(launch_browser=False)
        getml.engine.set_project("by_default")
        self.classes_ = np.unique(labels)
        self._known = tables(records, self._target)
        population, others = self._frames(records, labels)
        model = getml.data.DataModel(population.to_placeholder())
        for path, frame in others.items():
            model.add(frame.to_placeholder(_flat(path)))
            above = max((x for x in others if path.startswith(f"{x}.")), key=len, default="")
            parent = getattr(model, _flat(above)) if above else model.population
            child = getattr(model, _flat(path))
            parent.join(child, on=("own_key", "outer_key"))
        loss = getml.feature_learning.loss_functions.CrossEntropyLoss
        self._pipeline = getml.pipeline.Pipeline(
            data_model=model,
            feature_learners=[getml.feature_learning.FastProp(loss_function=loss, num_threads=1)],
            predictors=[getml.predictors.XGBoostClassifier(n_jobs=1)],
        )
        self._pipeline.fit(population, _by_name(others), check=False)
        return self

    def predict_proba(self, records):
        """Probabilities of the classes."""
        population, others = self._frames(records, [self.classes_[0]] * len(records))
        found = np.asarray(self._pipeline.predict(population, _by_name(others)))
        return np.concatenate([1 - found, found], axis=1) if len(self.classes_) == 2 else found

    def _frames(self, records, labels):
        import getml

        frames, found = {}, tables(records, self._target)
        some = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        for path, known in self._known.items():
            table = found.get(path, known[:0]).reindex(columns=known.columns)
            keys = _keys(table)
            own = table[keys].astype("int64").astype(str)
            frame = table.drop(columns=keys).rename(columns=_flat)
            is_number = [pd.api.types.is_numeric_dtype(x) for x in known.drop(columns=keys).dtypes]
            roles = dict(zip(frame.columns, is_number, strict=True))
            for name, is_one in roles.items():
                frame[name] = frame[name].astype(float) if is_one else frame[name].astype(str)
            frame["own_key"] = own.agg("-".join, axis=1)
            named = {"join_key": ["own_key"], "target": []}
            if path:
                frame["outer_key"] = own[keys[:-1]].agg("-".join, axis=1)
                named["join_key"].append("outer_key")
            else:
                for i, name in enumerate(some):
                    frame[f"target{i}"] = (np.asarray(labels) == name).astype(float)
                    named["target"].append(f"target{i}")
            named["numerical"] = [name for name, is_one in roles.items() if is_one]
            named["categorical"] = [name for name, is_one in roles.items() if not is_one]
            name = _flat(path) or "population"
            frames[path] = getml.DataFrame.from_pandas(frame, name, roles=named)
        return frames.pop(""), frames


def _by_name(frames):
    return {_flat(path): frame for path, frame in frames.items()}


def _flat(name):
    return name.replace(".", "_")


LEARNERS = {"YDF": Sequences, "Khiops": Khiops, "getML": FastProp}
