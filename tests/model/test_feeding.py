"""Which parts of a batch the replicas of each worker get."""

from types import SimpleNamespace

from keras_mmil.model.replicas import _numbers_of_parts


def test_parts_of_workers_are_interleaved():
    """Keras joins the first replica of each worker, then the second of each, and so on."""
    n_workers, n_replicas = 3, 6
    parts = [
        list(
            _numbers_of_parts(
                SimpleNamespace(
                    num_input_pipelines=n_workers,
                    num_replicas_in_sync=n_replicas,
                    input_pipeline_id=worker,
                )
            )
        )
        for worker in range(n_workers)
    ]
    joined = [of_worker[i] for i in range(n_replicas // n_workers) for of_worker in parts]
    assert joined == list(range(n_replicas))
