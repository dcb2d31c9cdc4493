"""Training in a `tf.distribute.Strategy`, compared with training in one process."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest

import keras_mmil
from keras_mmil.model.replicas import _numbers_of_parts

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("strategies.py")
KINDS = ["on_vectors", "on_ids", "on_texts", "on_records"]
QUICK = KINDS[:1]  # this in every run of the tests; the others, and all on workers, nightly
KILLED, TIME_LIMIT = -9, 600
ERROR = "If a worker is gone: start all workers again with the same command"


@pytest.fixture(scope="module")
def start():
    """Start processes of the program, as workers or alone; none of them outlives the module."""
    started = []
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        paths = (ROOT, ROOT / "tests" / "helpers")
        patch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
        start_workers = importlib.import_module("local_workers").start

        def start(folder, *arguments, workers=0):
            if workers:
                options = (folder, "--worker", *arguments)
                started.extend(start_workers(workers, PROGRAM, *options, logs=folder))
                return started[-workers:]
            started.append(Process(folder, *arguments))
            return started[-1]

        yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def alone(start, tmp_path_factory):
    """One process that trains without a strategy, and with two replicas."""
    return start(tmp_path_factory.mktemp("alone"), "--kinds", *QUICK)


@pytest.fixture(scope="module")
def all_alone(start, tmp_path_factory):
    """As `alone`, for all kinds of input."""
    return start(tmp_path_factory.mktemp("all_alone"), "--kinds", *KINDS)


class Process(subprocess.Popen):
    """A process that goes on beside others until its results are needed."""

    def __init__(self, folder, *arguments):
        self.folder = folder
        with open(folder / "alone.log", "w") as log:
            command = [sys.executable, PROGRAM, folder, *arguments]
            super().__init__(command, stdout=log, stderr=subprocess.STDOUT)

    def read(self, name):
        """What it has written, when it has ended."""
        assert self.wait(TIME_LIMIT) == 0, logs(self.folder)
        return read(self.folder, name)


def read(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


def assert_same(found, expected):
    """All results of the networks found."""
    for kind, results in found.items():
        for name, values in results.items():
            assert np.shape(values) == np.shape(expected[kind][name]), (kind, name)
            np.testing.assert_allclose(
                values, expected[kind][name], rtol=0, atol=1e-5, err_msg=f"{kind}, {name}"
            )


def assert_replicas_train_alike(process, kinds):
    """The networks of all kinds of input, in two replicas."""
    found = process.read("mirrored")
    assert [*found] == kinds
    assert_same(found, process.read("alone"))


def assert_trained_like_one_process(folder, alone, n):
    """The weights and losses of the training with checkpoints, on each worker."""
    for i in range(n):
        found = {"trained": read(folder, f"worker-{i}-trained")}
        assert_same(found, alone.read("interrupted"))


def assert_interruptions_made_no_difference(process, n_moments):
    """Checkpoints are whole at any moment, and lead to the same end."""
    found = process.read("interrupted")
    assert len(found["resumed"]) == n_moments
    assert_same(found["resumed"], dict.fromkeys(found["resumed"], found["trained"]))


def logs(folder):
    """What workers have printed."""
    return "".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.log")))


def assert_end_well(workers, folder):
    """Wait for workers."""
    assert [worker.wait(TIME_LIMIT) for worker in workers] == [0] * len(workers), logs(folder)


@pytest.mark.slow
@pytest.mark.nightly
def test_workers_of_whom_one_is_killed_train_to_the_weights_of_one_process(start, alone, tmp_path):
    """Worker 1 kills itself in the middle of an epoch; all are started again, and go on."""
    workers = start(tmp_path, "--die", workers=2)
    assert workers[1].wait(TIME_LIMIT) == KILLED, logs(tmp_path)
    killed_at = time.monotonic()
    assert workers[0].wait(TIME_LIMIT) > 0, logs(tmp_path)
    assert time.monotonic() - killed_at < 60
    assert ERROR in (tmp_path / "worker-0.log").read_text()
    for path in (tmp_path / "training").glob("*.keras"):
        assert isinstance(keras.models.load_model(path), keras_mmil.Model)
    assert_end_well(start(tmp_path, "--resume", workers=2), tmp_path)
    assert_trained_like_one_process(tmp_path, alone, 2)


@pytest.mark.slow
def test_replicas_train_to_the_weights_of_one_process(alone):
    assert_replicas_train_alike(alone, QUICK)


@pytest.mark.slow
def test_what_replicas_would_get_wrong_is_refused(alone):
    refused = alone.read("refused")
    assert "reduction='sum'" in refused["sum"]
    assert "Received: steps_per_execution=2" in refused["steps"]
    assert "Expected training without a strategy" in refused["adversarial"]
    assert "Expected batches with a part for every replica" in refused["normalised"]


@pytest.mark.slow
def test_interrupted_trainings_end_as_if_they_had_not_been(alone):
    assert_interruptions_made_no_difference(alone, 3)


@pytest.mark.slow
@pytest.mark.nightly
def test_replicas_train_to_the_weights_of_one_process_on_all_inputs(all_alone):
    assert_replicas_train_alike(all_alone, KINDS)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("n", [2, 4])
def test_workers_train_to_the_weights_of_one_process(start, all_alone, tmp_path, n):
    assert_end_well(start(tmp_path, "--train", "--kinds", *KINDS, workers=n), tmp_path)
    for i in range(n):
        found = read(tmp_path, f"worker-{i}")
        assert [*found] == KINDS
        assert_same(found, all_alone.read("alone"))
    assert_trained_like_one_process(tmp_path, all_alone, n)


@pytest.mark.slow
@pytest.mark.nightly
def test_trainings_interrupted_at_many_moments_end_alike(start, tmp_path):
    assert_interruptions_made_no_difference(start(tmp_path, "--moments", "50"), 50)


def test_parts_of_workers_are_interleaved():
    """Keras joins the first replica of each worker, then the second of each, and so on."""
    n_workers, n_replicas = 3, 6
    sizes = {"num_input_pipelines": n_workers, "num_replicas_in_sync": n_replicas}
    contexts = [SimpleNamespace(**sizes, input_pipeline_id=worker) for worker in range(n_workers)]
    parts = [list(_numbers_of_parts(context)) for context in contexts]
    joined = [of_worker[i] for i in range(n_replicas // n_workers) for of_worker in parts]
    assert joined == list(range(n_replicas))
