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
    found = []
    for name, question in QUESTIONS.items():
        times = {"answer": [], "imports": []}
        for _ in range(options.repeats):  # in turn, so that both see the machine in the same states
            times["answer"].append(seconds(asking(name, question)))
            times["imports"].append(seconds(IMPORTS))
        best = {key: min(values) for key, values in times.items()}
        print(f"{name}: {best['answer']:.1f} s, {best['imports']:.1f} s of imports", flush=True)
        found.append(entry(name, best["answer"], best["imports"], options.repeats))
    if not options.dry:
        write("first_answers", found, key=("experiment", "model"))


def asking(name, question):
    """Code that prints why the network `name` decides as it does."""
    return (
        "import tensorflow as tf; from keras_mmil import zoo; "
        f"print(zoo.load({name!r}).explain({question})[0])"
    )


def seconds(code):
    """Seconds that a fresh process takes for `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def entry(name, answer, imports, runs):
    """The record of one network."""
    return {
        "experiment": name,
        "model": "explain",
        "reference": "imports",
        "metric": "first_answer",
        "seconds": round(answer, 2),
        "reference_seconds": round(imports, 2),
        "runs": runs,
    }


if __name__ == "__main__":
    main()
