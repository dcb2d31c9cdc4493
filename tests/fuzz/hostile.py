"""Damaged and hostile archives, arrays and pickles: well packed, but with harm in them."""

import contextlib
import functools
import gzip
import io
import stat
import struct
import tarfile
import zipfile

import h5py
import mutations
import numpy as np

__all__ = ["HOSTILE"]

_BOMBS = (2**26 - 1, 2**28)  # bytes of zeros
_OUTSIDE = ("../evil", "../../evil", "/tmp/evil-64f1", "a/../../evil", "..\\evil", "")


def _payloads():
    """Pickles that would leave a marker when they are unpickled."""
    name = mutations.PAYLOAD
    call = f"import {name} as p; p.run()"
    return (
        f"c{name}\nrun\n(tR.".encode(),
        f"\x80\x02c{name}\nHarm\n)\x81.".encode("latin1"),
        f"\x80\x04\x8c{chr(len(name))}{name}\x8c\x03run\x93)R.".encode("latin1"),
        b"cos\nsystem\n(S'touch executed'\ntR.",
        f"cbuiltins\nexec\n(S'{call}'\ntR.".encode(),
        f"c__builtin__\neval\n(S'__import__(\"{name}\").run()'\ntR.".encode(),
        b"(S'touch executed'\nios\nsystem\n.",
        f"(i{name}\nHarm\n.".encode(),
    )


_PAYLOADS = _payloads()


def pickled(rng, content, others, hostile):
    """A pickle with harm in it, or with other numbers."""
    kind = rng.randrange(5)
    if kind == 0:
        return "a payload", rng.choice(_PAYLOADS)
    if kind == 1:  # before the rest, whose result is still what is returned
        return "a payload before it", rng.choice(_PAYLOADS)[:-1] + b"0" + content
    if kind == 2:
        new = rng.choice(
            [b"I" + b"9" * 5000 + b"\n", b"\x8b\xff\xff\xff\x7f", b"r\xff\xff\xff\x7f"]
        )
        at = rng.randrange(2, len(content))
        return f"{new[:6]!r} in at {at}", content[:at] + new + content[at:]
    if kind == 3:
        depth = rng.choice([500, 50_000])
        return f"{depth} levels", b"(" * depth + b"t" * depth + b"."
    at = rng.randrange(len(content))
    code = rng.choice(b"()]}0.NQRTbcdegijlopqrstu\x81\x82\x85\x8c\x8d\x93\x94\x95")
    return f"opcode {chr(code)!r} at {at}", content[:at] + bytes([code]) + content[at + 1 :]


# Arrays -----------------------------------------------------------------------------------------

_SHAPES = ((2**40,), (2**31, 2**31), (2**62, 4), (0, 2**60), (-1,), (1,) * 40, (), (0,))
_DTYPES = ("|O", "<f8", "<f2", ">i4", "<U99999999", "|V0", "|S0", "<c16", "<M8[s]", "|b1", "<u1")


def array(rng, content, others, hostile):
    """A `.npy` file with another header, dtype or values, or with objects."""
    kind = rng.randrange(6)
    if kind == 0:
        header = b"\x93NUMPY\x01\x00" + _header("|O", (1,))
        return "objects", header + rng.choice(_PAYLOADS)
    found = np.load(io.BytesIO(content), allow_pickle=False)
    dtype, shape = found.dtype.str, found.shape
    if kind == 1:
        shape = rng.choice([*_SHAPES, shape[::-1], (*shape, 1), tuple(n + 1 for n in shape)])
    elif kind == 2:
        dtype = rng.choice(_DTYPES)
    elif kind == 3:
        new = rng.choice([b"\x93NUMPY\x03\x00", b"\x93NUMPY\xff\xff", b"\x93NUMPY\x02\x00"])
        return f"{new!r}", new + content[8:]
    elif kind == 4:
        return _other_values(rng, found)
    else:
        text = rng.choice(["{" * 3000, "(" * 200, "{}", "[]", "9" * 6000, "__import__('os')"])
        return f"header {text[:20]}", b"\x93NUMPY\x01\x00" + struct.pack(
            "<H", len(text)
        ) + text.encode()
    body = found.tobytes()
    return f"{dtype} {shape}", b"\x93NUMPY\x01\x00" + _header(dtype, shape) + body


def _header(dtype, shape):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode("latin1")
    return struct.pack("<H", len(text)) + text


def _other_values(rng, found):
    changed = found.copy().reshape(-1)
    dtypes = [found.dtype, found.dtype, "f8", "i8", "u1", "?", "c8", "U3"]
    dtype = np.dtype(rng.choice(dtypes))
    with np.errstate(all="ignore"), contextlib.suppress(ValueError):  # of texts that are no numbers
        if changed.size and changed.dtype.kind in "iuf":
            values = [0, 1, -1, 2**31, 2**62, float("nan"), float("inf"), 1e300]
            value, place = np.float64(rng.choice(values)), rng.randrange(changed.size)
            changed[place] = value.astype(changed.dtype)
        changed = changed.astype(dtype)
    shape = rng.choice([found.shape, found.shape, (changed.size,), (*found.shape, 1)])
    if rng.random() < 0.2:
        changed, shape = changed[:-1], (max(changed.size - 1, 0),)
    buffer = io.BytesIO()
    np.save(buffer, changed.reshape(shape))
    return f"values of {dtype} {shape}", buffer.getvalue()


# Archives ---------------------------------------------------------------------------------------


def zipped(rng, content, others, hostile):
    """A zip archive whose members are others, or are elsewhere, or are said to be."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        members = [(info, archive.read(info)) for info in infos]
    i = rng.randrange(len(members))
    info, inner = members[i]
    kind = rng.randrange(12)
    if kind < 6 and inner:  # most of what follows is refused at once
        description, inner = mutations.mutated(rng, info.filename, inner, others, hostile)
        members[i] = info, inner
        return f"{info.filename}: {description}", _zip(members)
    if kind == 6:
        name = rng.choice([*_OUTSIDE, info.filename.upper(), info.filename + "x", "a" * 300])
        members[i] = _named(info, name), inner
        return f"{info.filename} called {name[:20]!r}", _zip(members)
    if kind == 7:
        del members[i]
        return f"without {info.filename}", _zip(members)
    if kind == 8:
        link = _named(info, info.filename)
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        members[i] = link, rng.choice([b"/etc/passwd", b"../evil"])
        return f"{info.filename} is a link", _zip(members)
    if kind == 9:
        extra = zipfile.ZipInfo(rng.choice([*_OUTSIDE[:-1], info.filename, "assets/../../evil"]))
        members.insert(rng.randrange(len(members) + 1), (extra, rng.choice([b"", inner, b"x"])))
        return f"with {extra.filename!r}", _zip(members)
    if kind == 10 and rng.random() < 0.2:  # they take long
        rest = [each for each in members if each[0] is not info]
        return "a bomb", _bomb(info.filename, rest, rng.choice(_BOMBS))
    return _forged(rng, _zip(members), len(members))


def _named(info, name):
    changed = zipfile.ZipInfo(name or "/", info.date_time)
    changed.compress_type = info.compress_type
    return changed


def _zip(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for info, inner in members:
            method = min(info.compress_type, zipfile.ZIP_DEFLATED)
            new = _named(info, info.filename)
            new.external_attr = info.external_attr
            archive.NameToInfo.pop(new.filename, None)  # names may come twice
            archive.writestr(new, inner, method, 1)
    return buffer.getvalue()


@functools.cache
def _alone(name, size):
    return _zip([(_deflated(name), bytes(size))])


def _deflated(name):
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _bomb(name, members, size):
    """An archive with a member of zeros, whose declared size is true."""
    buffer = io.BytesIO(_alone(name, size))
    with zipfile.ZipFile(buffer, "a") as archive:
        for info, inner in members:
            archive.writestr(_deflated(info.filename), inner)
    return buffer.getvalue()


def _forged(rng, content, n):
    """Sizes, methods or flags in the directory, or in the header, that are not true."""
    central = rng.random() < 0.5
    signature = b"PK\x01\x02" if central else b"PK\x03\x04"
    at = -1
    for _ in range(rng.randrange(n) + 1):
        at = content.find(signature, at + 1)
    fields = {"flags": (6, "<H"), "method": (8, "<H"), "crc": (14, "<I"), "size": (22, "<I")}
    fields |= {"packed": (18, "<I"), "name": (26, "<H"), "extra": (28, "<H")}
    name = rng.choice(list(fields))
    offset, form = fields[name]
    most = 2**16 if form == "<H" else 2**32
    value = rng.choice([0, 1, 8, 12, 14, 95, most - 1, most // 2, rng.randrange(most)])
    start = at + offset + 2 * central
    changed = bytearray(content)
    struct.pack_into(form, changed, start, value)
    return f"{name}={value} in {'directory' if central else 'header'} at {at}", bytes(changed)


def tarred(rng, content, others, hostile):
    """A `.tar.gz` whose members are elsewhere, links, devices, or of another size; or a bomb."""
    kind = rng.randrange(8)
    if kind == 0:
        return mutations.gzipped(rng, content, others, hostile)
    inner = bytearray(gzip.decompress(content))
    with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
        offsets = [member.offset for member in archive.getmembers()]
    at = rng.choice(offsets)
    header = inner[at : at + 512]
    if kind == 1:
        new = rng.choice([*_OUTSIDE[:-1], "aclImdb/train/pos/../../../../evil"]).encode()
        header[:100] = new.ljust(100, b"\x00")
    elif kind == 2:
        new = bytes([rng.choice(b"1234567xgLKSDA\x00z")])
        header[156:157] = new
        header[157:257] = rng.choice([b"/etc/passwd", b"../evil"]).ljust(100, b"\x00")
    elif kind == 3:
        sizes = [b"77777777777\x00", b"\x80" + b"\x7f" * 11, b"-0000000001\x00", b"\xff" * 12]
        new = rng.choice([*sizes, b"00004000000\x00", b"junk".ljust(12)])
        header[124:136] = new
    elif kind == 4:
        field = rng.choice([100, 108, 116, 136, 329, 337])
        new = rng.randbytes(8)
        header[field : field + 8] = new
    elif kind == 5:
        j = rng.choice(offsets)
        new = b"another's"
        header = inner[j : j + 512]
    else:
        body = inner[at + 512 : at + 1024]
        description, changed = mutations.mutated(rng, "x", bytes(body) or b"x", others, {})
        inner[at + 512 : at + 1024] = changed
        return f"behind {at}: {description}", gzip.compress(bytes(inner), 1)
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\x00 ".encode()
    inner[at : at + 512] = header
    return f"{new[:30]!r} in the header at {at}", gzip.compress(bytes(inner), 1)


# HDF5 -------------------------------------------------------------------------------------------


def hdf5(rng, content, others, hostile):
    """An HDF5 file with links out of it, datasets of huge or other shapes, or without some."""
    buffer = io.BytesIO(content)
    with h5py.File(buffer, "r+") as file:
        names = []
        file.visititems(lambda name, x: names.append(name) if isinstance(x, h5py.Dataset) else None)
        if not names:
            return mutations.mutated(rng, "x", content, others, {})
        name = rng.choice(names)
        dtype, shape = file[name].dtype, file[name].shape
        values = np.asarray(file[name])
        del file[name]
        kind = rng.randrange(7)
        if kind == 0:
            file[name] = h5py.ExternalLink("/tmp/evil-64f1.h5", "x")
        elif kind == 1:
            file[name] = h5py.SoftLink(rng.choice(["/", f"/{name}", "/nowhere"]))
        elif kind == 2:
            huge = rng.choice([(2**33, 8), (2**20, 2**20), (2**40,)])
            file.create_dataset(name, huge, rng.choice(["f4", dtype]), chunks=True)
        elif kind == 3:
            other = rng.choice(["f8", "i1", "S5", "c16"])
            file[name] = np.zeros(shape, other)
        elif kind == 4:
            file[name] = np.zeros(rng.choice([(), (0,), (3,), (*shape, 1), shape[::-1]]), dtype)
        elif kind == 5:
            changed = values.copy()
            if changed.size and changed.dtype.kind == "f":
                changed.reshape(-1)[0] = rng.choice([float("nan"), float("inf"), 1e30])
            file[name] = changed
    return f"{name}: change {kind}", buffer.getvalue()


HOSTILE = {
    ".json": mutations.json_values,
    ".jsonl": mutations.json_lines,
    ".jsonl.gz": functools.partial(mutations.gzipped, name="x.jsonl"),
    ".tar.gz": tarred,
    ".csv": mutations.text,
    ".txt": mutations.text,
    ".sql": mutations.text,
    ".off": mutations.text,
    ".vec": mutations.text,
    ".index": mutations.text,
    ".pickle": pickled,
    **{f".{part}": pickled for part in ("x", "y", "tx", "ty", "allx", "ally", "graph")},
    ".npy": array,
    ".npz": zipped,
    ".zip": zipped,
    ".keras": zipped,
    ".h5": hdf5,
}
