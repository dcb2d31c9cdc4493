"""The same results on Ray as in this process, bit by bit, also where an actor is killed."""

import os
import time

import pyarrow as pa
import pyarrow.parquet
import pytest
from ray_processes import killing, pids_of_actors
from saved_rules import assert_same_rules

from keras_mmil import distributed, io
from keras_mmil.distributed.engine import Pool

# Actors trace graphs, and so has this process to: operations that are fused may round otherwise.
pytestmark = [
    pytest.mark.graphs,
    # Ray leaves what it started to the end of the process.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
BLOCKS = 13  # of 8 rows or fewer


@pytest.fixture(scope="module", autouse=True)
def _ray():
    """Ray with four cores, whatever there are, and nothing that is reached from elsewhere."""
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'keras-mmil[ray]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_worker_niceness", "0")  # else they wait for all other tests
        ray.init(
            num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=10**8
        )
        yield
        ray.shutdown()


def predict(saved, out, **arguments):
    settings = {"keep": ["id"], "block_size": 8, "verbose": 0, **arguments}
    return distributed.predict(saved.model_path, f"{saved.folder}/in/*.parquet", out, **settings)


def fit_rules(saved, **arguments):
    return distributed.fit_rules(
        saved.model_path,
        saved.folder / "data",
        saved.folder / "valid",
        block_size=8,
        # More rows than are drawn, so that samples are merged.
        **saved.arguments | {"max_rows": 50} | arguments,
    )


def assert_same_tables(ours, theirs):
    """Check that all files are equal, bit by bit: the note of the job, and those of the blocks."""
    names = sorted(path.name for path in theirs.iterdir())
    assert [path.name for path in sorted(ours.iterdir())] == names
    assert len(names) == BLOCKS + 1
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


@pytest.fixture(scope="module")
def here(saved, rules, tmp_path_factory):
    """What this process computes: folders of predictions and explanations, and rules."""
    folder = tmp_path_factory.mktemp("here")
    assert {report.process for report in predict(saved, folder / "predict").reports} == {
        os.getpid()
    }
    explain(saved, rules, folder / "explain")
    return folder, fit_rules(saved)


def explain(saved, rules, out, **arguments):
    data, settings = f"{saved.folder}/in/*.parquet", {"block_size": 8, "verbose": 0}
    return distributed.explain(
        saved.model_path, data, out, explainer=rules[0], **settings, **arguments
    )


def test_a_job_on_ray_gives_what_this_process_gives(saved, tmp_path):
    folder = tmp_path / "here"
    predict(saved, folder)
    assert predict(saved, tmp_path / "out", actors=1).reports
    assert_same_tables(tmp_path / "out", folder)


@pytest.mark.slow
def test_predictions_where_an_actor_is_killed(saved, here, tmp_path):
    """SIGKILL in the middle: nothing is lost, and nothing comes twice."""
    out = tmp_path / "out"
    with killing("_Actor", lambda: any(out.glob("block-*"))) as killed:
        done = predict(saved, out, actors=2)
    assert len(killed) == 1
    assert [report.number for report in done.reports] == list(range(BLOCKS))
    assert os.getpid() not in {report.process for report in done.reports}
    assert_same_tables(out, here[0] / "predict")
    ids = pa.parquet.read_table(out)["id"].to_pylist()
    assert sorted(ids) == sorted(f"row {i}" for i in range(100))
    assert not predict(saved, out, actors=2).reports  # no actor has to start for that


@pytest.mark.slow
@pytest.mark.nightly  # above, predictions
def test_rules_where_an_actor_is_killed(saved, here, tmp_path):
    with killing("_Actor.call", lambda: True) as killed:
        ours = fit_rules(saved, actors=2)
    assert len(killed) == 1
    assert_same_rules(tmp_path, ours, here[1])


@pytest.mark.slow
def test_a_damaged_file_is_named(saved, rules, tmp_path):
    data = tmp_path / "in"
    io.write(data, saved.x, top_bags_per_file=48, verbose=0)
    damaged = data / "part-00001.parquet"
    content = bytearray(damaged.read_bytes())
    content[200] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(ValueError, match=r"1 of 3 cannot.*rows 0 to 47 of .*part-00001\.parquet"):
        distributed.predict(
            saved.model_path, data, tmp_path / "out", actors=1, block_size=50, verbose=0
        )
    assert len(list((tmp_path / "out").glob("block-*"))) == 2
    with pytest.raises(ValueError, match=r"rows 0 to 47 of .*part-00001\.parquet"):
        distributed.fit_rules(
            saved.model_path, data, saved.folder / "valid", actors=1, **saved.arguments
        )


@pytest.mark.slow
def test_more_actors_than_ray_has_cores(saved, tmp_path):
    with pytest.raises(ValueError, match="at most 2 actors of 2 threads, for the 4 cores"):
        predict(saved, tmp_path / "out", actors=3, threads=2)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.nightly  # the ordinary tests have two
@pytest.mark.parametrize("actors", [1, 4])
def test_any_number_of_actors(saved, here, tmp_path, actors):
    done = predict(saved, tmp_path / "out", actors=actors)
    assert len({report.process for report in done.reports}) <= actors
    assert_same_tables(tmp_path / "out", here[0] / "predict")
    assert_same_rules(tmp_path, fit_rules(saved, actors=actors), here[1])


@pytest.mark.slow
@pytest.mark.nightly  # above, predictions
def test_explanations(saved, rules, here, tmp_path):
    explain(saved, rules, tmp_path / "out", actors=2)
    assert_same_tables(tmp_path / "out", here[0] / "explain")


@pytest.mark.nightly
@pytest.mark.slow
def test_sensitive_directions_of_some_top_bags(saved, tmp_path):
    arguments = {"metric": "sensitivity", "max_top_bags": 40}
    ours, theirs = (fit_rules(saved, actors=actors, **arguments) for actors in (2, 0))
    assert_same_rules(tmp_path, ours, theirs)


@pytest.mark.nightly
@pytest.mark.slow
def test_what_ends_every_actor_is_not_tried_for_ever():
    deadly = lambda: lambda common, each: each if each < 2 else os.kill(os.getpid(), 9)  # noqa: E731
    found = Pool(deadly, actors=1, threads=1).map(range(4), here=None)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(RuntimeError, match="the same call continues"):
        next(found)


@pytest.mark.nightly
@pytest.mark.slow
def test_actors_end_with_the_work(saved, tmp_path):
    fit_rules(saved, actors=1)
    deadline = time.monotonic() + 20
    while pids_of_actors("_Actor") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not pids_of_actors("_Actor")
