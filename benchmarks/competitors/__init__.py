"""Ways to train a network on bags of bags, for `benchmarks/steps.py`.

Each module has a class `Step(workload)`: called with the index of a batch, it trains one step on it
(Adam, binary cross-entropy) and returns the loss as a float.
"""
