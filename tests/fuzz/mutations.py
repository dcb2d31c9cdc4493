"""Damaged copies of files: of any bytes, and of what text, JSON and gzip hold."""

import base64
import gzip
import json
import marshal
import re

__all__ = ["PAYLOAD", "mutated", "structured"]

# A module beside the files under test. Importing it, or calling what it holds, leaves a marker.
PAYLOAD = "fuzz_payload"
_EDGES = (0, 1, 2**7, 2**15 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)


def mutated(rng, name, content, others, hostile):
    """A damaged copy of a file.

    Args:
        rng: `random.Random`.
        name: of the file, by whose ending its structure is known.
        content: its bytes.
        others: bytes of other files, which may be mixed with it.
        hostile: from endings to functions of (rng, content, others, hostile), which return a
            description and bytes, for files with a structure.

    Returns:
        What was done, and the bytes.
    """
    change = structured(name, hostile)
    if change is not None and content and rng.random() < 0.6:
        return change(rng, content, others, hostile)
    n = rng.choice([1, 1, 1, 2, 4])
    done = []
    for _ in range(n):
        change = rng.choice(_BYTES) if content else _other
        description, content = change(rng, content, others)
        done.append(description)
    return ", ".join(done), content


def structured(name, hostile):
    """The function for the longest ending of a name that has one."""
    endings = [ending for ending in hostile if name.endswith(ending)]
    return hostile[max(endings, key=len)] if endings else None


# Any bytes --------------------------------------------------------------------------------------


def _span(rng, content, most=None):
    start = rng.randrange(len(content))
    longest = min(len(content) - start, most or len(content))
    return start, start + rng.randrange(longest) + 1


def _flip(rng, content, others):
    changed = bytearray(content)
    places = [rng.randrange(len(content)) for _ in range(rng.choice([1, 1, 2, 8]))]
    for place in places:
        changed[place] ^= 1 << rng.randrange(8)
    return f"bits flipped at {places}", bytes(changed)


def _overwrite(rng, content, others):
    start, end = _span(rng, content, 16)
    new = rng.choice([b"\x00", b"\xff", b"\x7f", b"\x80"]) * (end - start)
    new = rng.randbytes(end - start) if rng.random() < 0.5 else new
    return f"{new!r} at {start}", content[:start] + new + content[end:]


def _number(rng, content, others):
    size, order = rng.choice([1, 2, 4, 8]), rng.choice(["little", "big"])
    number = rng.choice(_EDGES) % 2 ** (8 * size)
    start = rng.randrange(len(content))
    new = number.to_bytes(size, order)
    return f"{number} in {size} bytes at {start}", content[:start] + new + content[start + size :]


def _truncate(rng, content, others):
    end = rng.randrange(len(content))
    return f"cut off at {end}", content[:end]


def _cut(rng, content, others):
    start, end = _span(rng, content)
    return f"{start}:{end} cut out", content[:start] + content[end:]


def _repeat(rng, content, others):
    start, end = _span(rng, content)
    return f"{start}:{end} twice", content[:end] + content[start:]


def _zero(rng, content, others):
    start, end = _span(rng, content)
    return f"{start}:{end} zeros", content[:start] + bytes(end - start) + content[end:]


def _move(rng, content, others):
    start, end = _span(rng, content)
    rest = content[:start] + content[end:]
    to = rng.randrange(len(rest) + 1)
    return f"{start}:{end} moved to {to}", rest[:to] + content[start:end] + rest[to:]


def _insert(rng, content, others):
    to, new = rng.randrange(len(content) + 1), rng.randbytes(rng.choice([1, 2, 16, 300]))
    return f"{len(new)} bytes in at {to}", content[:to] + new + content[to:]


def _splice(rng, content, others):
    other = rng.choice(others) or b"\x00"
    start, end = _span(rng, other)
    to = rng.randrange(len(content) + 1)
    behind = content[to + (end - start) * rng.choice([0, 1]) :]
    return f"{start}:{end} of another file in at {to}", content[:to] + other[start:end] + behind


def _append(rng, content, others):
    new = rng.choice([b"\x00", b"\n", b"garbage", content, rng.randbytes(64)])
    return f"{len(new)} bytes behind it", content + new


def _other(rng, content, others):
    new = rng.choice([b"", b"\x00" * 64, content[::-1], *others])
    return f"{len(new)} bytes instead of it", new


_BYTES = (
    *(_flip, _flip, _flip, _overwrite, _overwrite, _number, _number, _truncate, _cut, _repeat),
    *(_zero, _move, _insert, _splice, _append, _other),
)


# Text -------------------------------------------------------------------------------------------

_WORDS = (
    *("", "0", "-1", "1.5", "-0", "1e999", "nan", "inf", "NULL", "null", "True", "1_000", "\u0663"),
    *(str(2**31), str(2**63), str(-(2**63) - 1), str(10**30), "9" * 5000, "x", '"', "'", "\\"),
    *("\x00", "\ufeff", "\x85", "\u2028", "\r", "\r\n", "\n", "\t", "#", ",", ";", "(", ")"),
    "a" * 9999,
)  # fmt: skip
_TOKEN = re.compile(rb"[-+.\w]+")


def text(rng, content, others, hostile):
    """Text with other words and lines."""
    kind = rng.randrange(6)
    if kind == 0:
        lines = content.splitlines(keepends=True)
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines) + 1)
        lines[j:j] = [lines[i]] * rng.choice([1, 1, 1000])
        return f"line {i} again at {j}", b"".join(lines)
    if kind == 1:
        lines = content.splitlines(keepends=True)
        i = rng.randrange(len(lines))
        return f"line {i} left out", b"".join(lines[:i] + lines[i + 1 :])
    if kind == 2:
        encoding = rng.choice(["utf-16", "utf-32", "latin-1", "utf-8-sig"])
        changed = content.decode("utf-8", "replace").encode(encoding, "replace")
        return f"in {encoding}", changed
    tokens = list(_TOKEN.finditer(content))
    word = rng.choice(_WORDS).encode("utf-8", "surrogatepass")
    if not tokens:
        return f"{word[:20]!r} instead of all", word
    token = rng.choice(tokens)
    changed = content[: token.start()] + word + content[token.end() :]
    return f"{word[:20]!r} instead of {token[0]!r} at {token.start()}", changed


# JSON -------------------------------------------------------------------------------------------

_CODE = marshal.dumps((lambda *_: __import__(PAYLOAD).run()).__code__)
_LAMBDA = {"code": base64.encodebytes(_CODE).decode(), "defaults": None, "closure": None}
# What Keras would make an object, or call a function, of; each would leave a marker.
_OBJECTS = (
    {"module": PAYLOAD, "class_name": "Harm", "config": {}, "registered_name": None},
    {"module": PAYLOAD, "class_name": "function", "config": "run", "registered_name": "run"},
    {"module": "os", "class_name": "system", "config": "touch executed"},
    {
        "module": "builtins",
        "class_name": "function",
        "config": "exec",
        "registered_name": "function",
    },
    {"module": "builtins", "class_name": "eval", "config": f"__import__('{PAYLOAD}').run()"},
    {"module": "keras.layers", "class_name": "Lambda", "config": {"name": "a", "function": "exec"}},
    {
        "module": "keras.layers",
        "class_name": "Lambda",
        "config": {"name": "b", "function": {"class_name": "__lambda__", "config": _LAMBDA}},
    },
    {"class_name": "__lambda__", "config": {"value": [_LAMBDA["code"], None, None]}},
    {"module": "keras.utils", "class_name": "get_file", "config": {"origin": "http://127.0.0.1:9"}},
    {"module": "keras.models", "class_name": "load_model", "config": {"filepath": "/tmp/evil"}},
    {"module": "keras_mmil", "class_name": "Model", "config": {}},
    {"class_name": "__typespec__", "spec_name": "Harm", "module": PAYLOAD, "config": []},
)
_DEEP = "deep-64f1"  # stands for brackets in brackets, which `json.dumps` cannot write
_VALUES = (
    *(None, True, False, 0, 1, -1, 2, 1.5, -0.5, 1e308, 5e-324, 2**31, 2**53 + 1, 2**63, -(2**63)),
    *(10**30, 10**400, float("nan"), float("inf"), -float("inf"), "", "x", "0", "\ud800", "\x00"),
    *("../../evil", "/tmp/evil", f"{PAYLOAD}.run", "a" * 9999, [], {}, [[]], [None], [0] * 999),
    *({"": None}, [{}, 1], {"x": {"y": []}}, _DEEP, *_OBJECTS[:2]),
)


def json_values(rng, content, others, hostile):
    """JSON with a value, or the name of one, replaced."""
    try:
        whole = json.loads(content)
    except ValueError:
        return text(rng, content, others, hostile)
    found = changed(rng, whole)
    return found[0], dumped(rng, found[1])


def json_lines(rng, content, others, hostile):
    """Lines of JSON, one of them with a value replaced."""
    lines = content.splitlines(keepends=True)
    i = rng.randrange(len(lines))
    if rng.random() < 0.2 or not lines[i].strip():
        return text(rng, content, others, hostile)
    description, lines[i] = json_values(rng, lines[i], others, hostile)
    lines[i] = lines[i].replace(b"\n", b"") + b"\n"
    return f"line {i}: {description}", b"".join(lines)


def changed(rng, whole):
    """What was done, and a copy of JSON's values with one of them changed."""
    places = list(_places(whole))
    place = rng.choice(places)
    new = rng.choice(_VALUES)
    if not place:
        return f"{str(new)[:20]!r} instead of all", new
    whole = json.loads(json.dumps(whole))  # a copy
    parent = whole
    for key in place[:-1]:
        parent = parent[key]
    key, kind = place[-1], rng.randrange(8)
    shown = "/".join(map(str, place))
    if kind == 0:
        del parent[key]
        return f"{shown} left out", whole
    if kind == 1 and isinstance(parent, dict):
        name = rng.choice([key + "x", "", key.upper(), *map(str, parent)])
        parent[name] = parent.pop(key)
        return f"{shown} called {name!r}", whole
    if kind == 2 and isinstance(parent, list):
        parent.insert(rng.randrange(len(parent) + 1), parent[key])
        return f"{shown} twice", whole
    if kind == 3:
        other = whole
        for step in rng.choice(places):
            other = other[step]
        parent[key] = json.loads(json.dumps(other))
        return f"{shown} with another one's value", whole
    classes = [at for at in places if at and at[-1] == "class_name"]
    if kind in (4, 5) and classes:
        place, parent, new = rng.choice(classes), whole, rng.choice(_OBJECTS)
        for step in place[:-1]:
            parent = parent[step]
        parent.update(
            new if kind == 4 else {name: new.get(name) for name in ("module", "class_name")}
        )
        return f"{new['class_name']} at {'/'.join(map(str, place[:-1]))}", whole
    if kind == 6 and type(parent[key]) is int:
        new = parent[key] + rng.choice([-1, 1, 10**9])
    parent[key] = new
    return f"{str(new)[:20]!r} at {shown}", whole


def _places(value, at=()):
    yield at
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from _places(value[key], (*at, key))


def dumped(rng, whole):
    """JSON of what `changed` returned."""
    depth = rng.choice([900, 10**5])
    deep = rng.choice(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth])
    return json.dumps(whole).replace(f'"{_DEEP}"', deep).encode()


# Packed -----------------------------------------------------------------------------------------


def gzipped(rng, content, others, hostile, name="x"):
    """What is in a gzip file, damaged and packed again; or a bomb."""
    if rng.random() < 0.05:
        return "a bomb", gzip.compress(gzip.decompress(content) + bytes(2**24), 9)
    change = structured(name, hostile)
    inner = gzip.decompress(content)
    if change is not None:
        description, inner = change(rng, inner, others, hostile)
    else:
        description, inner = rng.choice(_BYTES)(rng, inner, others)
    return f"packed: {description}", gzip.compress(inner, 1)
