"""PyTorch Geometric's aggregations, on sorted indices or on row pointers, whichever is given."""

import torch
from torch_geometric.nn import aggr

__all__ = ["ByIndex", "ByPointer"]

_AGGREGATIONS = {"max": aggr.MaxAggregation, "mean": aggr.MeanAggregation}


class _Network(torch.nn.Module):
    def __init__(self, workload, by_pointer):
        super().__init__()
        self.encoder, self.by_pointer = workload.encoder, by_pointer
        self.weights = torch.nn.ParameterDict(
            {name: torch.nn.Parameter(torch.tensor(w)) for name, w in workload.weights.items()}
        )
        self.aggregations = torch.nn.ModuleList(_AGGREGATIONS[n]() for n in workload.aggregations)
        if workload.table is not None:
            self.register_buffer("table", torch.tensor(workload.table))
        if workload.encoder == "convolution":
            self.normalisations = torch.nn.ModuleList(
                torch.nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01) for channels in (32, 64)
            )
            with torch.no_grad():  # TensorFlow's order of axes to PyTorch's
                for name in ("kernel_1", "kernel_2"):
                    self.weights[name].data = self.weights[name].permute(3, 2, 0, 1).contiguous()

    def forward(self, instances, bags):
        w = self.weights
        x = self._encode(instances)
        for level, (index, pointer, size) in enumerate(bags, start=1):
            kernel = w[f"bag_kernel_{level}"]
            by_id = not x.is_floating_point()
            x = torch.nn.functional.embedding(x, kernel) if by_id else x @ kernel
            x = torch.relu(x + w[f"bag_bias_{level}"])
            parts = x.chunk(len(self.aggregations), dim=1)
            where = {"ptr": pointer} if self.by_pointer else {"index": index, "dim_size": size}
            pairs = zip(self.aggregations, parts, strict=True)
            x = torch.cat([reduce(part, **where) for reduce, part in pairs], dim=1)
        return x @ w["kernel"] + w["bias"]

    def _encode(self, x):
        w = self.weights
        if self.encoder == "convolution":
            x = x[:, None].float() / 255
            for i, normalise in enumerate(self.normalisations, start=1):
                # TensorFlow's "same" with stride 2, which pads odd sums at the end.
                total = (-(-x.shape[-1] // 2) - 1) * 2 + 5 - x.shape[-1]
                x = torch.nn.functional.pad(x, (total // 2, total - total // 2) * 2)
                x = torch.nn.functional.conv2d(x, w[f"kernel_{i}"], w[f"bias_{i}"], stride=2)
                x = torch.nn.functional.max_pool2d(torch.relu(normalise(x)), 2, ceil_mode=True)
            x = x.permute(0, 2, 3, 1).reshape(len(x), -1)
            return torch.relu(x @ w["kernel_3"] + w["bias_3"])
        if self.encoder == "one-hot":
            return x
        x = torch.relu(self.table[x] @ w["kernel_1"] + w["bias_1"])
        return x.reshape(len(x), -1)


class _Step:
    def __init__(self, workload, by_pointer):
        self.network = _Network(workload, by_pointer)
        self.optimizer = torch.optim.Adam(self.network.parameters(), 0.001, eps=1e-7)
        self.batches = [
            (
                torch.tensor(batch.instances),
                [_bags(batch.sub_splits), _bags(batch.top_splits)],
                torch.tensor(batch.y),
            )
            for batch in workload.batches
        ]

    def __call__(self, i):
        instances, bags, y = self.batches[i % len(self.batches)]
        self.optimizer.zero_grad()
        logits = self.network(instances, bags)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, y)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


class ByIndex(_Step):
    """Sorted indices: scatter."""

    def __init__(self, workload):
        super().__init__(workload, by_pointer=False)


class ByPointer(_Step):
    """Row pointers: segments."""

    def __init__(self, workload):
        super().__init__(workload, by_pointer=True)


def _bags(splits):
    """Index of the bag of each row, row pointers, and number of bags."""
    pointer = torch.tensor(splits)
    index = torch.repeat_interleave(torch.arange(len(splits) - 1), pointer.diff())
    return index, pointer, len(splits) - 1
