"""From nothing to an explanation: `python benchmarks/first_answers.py`.

Each pretrained network is asked for one explanation in a fresh process, which imports TensorFlow,
loads network and rules, predicts and explains. Beside it stands a process that only imports Keras
with TensorFlow. Best of several. Results go to `benchmarks/results/first_answers.json`.
"""

import argparse
import subprocess
import sys
import time

from records import write

# What each network is asked, as code.
QUESTIONS = {
    "imdb": '["A charming comedy, and never dull."]',
    "mutagenicity": '[{"atoms": [{"element": "O", "bonds": [{"kind": "single"}]}]}]',
    "mnist": 'tf.RaggedTensor.from_tensor(tf.zeros((1, 2, 3, 28, 28), "uint8"), ragged_rank=2)',
    "modelnet-p100": "tf.RaggedTensor.from_tensor(tf.random.normal((1, 5, 100, 3)), ragged_rank=2)",
    "cora": 'tf.ragged.constant([[[7, 19], [19]]], dtype="int32")',
    "plants": '{name: tf.ragged.constant([[5, 6]]) for name in ("species", "nearby")}',
}
IMPORTS = "import tensorflow, keras"


def main():
    """Measure, print, and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="of each process")
    parser.add_argument("--dry", action="store_true", help="do not record the results")
    options = parser.parse_args()
    records = []
    for name in QUESTIONS:
        answers, imports = [], []
        for _ in range(options.repeats):  # in turn, so that both see the machine in the same states
            answers.append(seconds(asking(name)))
            imports.append(seconds(IMPORTS))
        print(f"{name}: {min(answers):.1f} s, {min(imports):.1f} s of imports", flush=True)
        records.append(
            {
                "experiment": name,
                "model": "explain",
                "reference": "imports",
                "metric": "first_answer_seconds",
                "mean": round(min(answers), 2),
                "reference_seconds": round(min(imports), 2),
                "runs": options.repeats,
            }
        )
    if not options.dry:
        write("first_answers", records)


def asking(name):
    """Code that prints why the network `name` decides as it does."""
    return (
        "import tensorflow as tf; from keras_mmil import zoo; "
        f"print(zoo.load({name!r}).explain({QUESTIONS[name]})[0])"
    )


def seconds(code):
    """Seconds that a fresh process takes for `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
