"""Explainers compared by all that is saved of them."""

__all__ = ["assert_same_rules"]


def assert_same_rules(folder, ours, theirs):
    """Check that two explainers are equal, bit by bit: levels, rules, grid, fidelity, hashes."""
    contents = []
    for name, explainer in (("ours", ours), ("theirs", theirs)):
        explainer.save(folder / name)
        files = sorted((folder / name).iterdir())
        contents.append({path.name: path.read_bytes() for path in files})
    assert len(contents[0]) == 2
    assert contents[0] == contents[1]
