"""Molecules that change genes, or do not: records of atoms and their bonds.

Reference: Debnath et al., Structure-activity relationship of mutagenic aromatic and heteroaromatic
nitro compounds, 1991; Srinivasan et al., Mutagenesis: ILP experiments in a non-determinate
biological domain, 1994.
"""

from keras_mmil.datasets._io import files

__all__ = ["TARGET", "load"]

TARGET = "mutagenic"
"""The path of the field to predict."""
_NUMBERS = ("ind1", "inda", "logp", "lumo")
_ATOM = {"element", "atom_type", "charge", "bonds"}
_BOND = {"bond_type", "element", "atom_type", "charge"}


def load() -> list[files.Document]:
    """The 188 molecules, of which 125 are mutagenic, in the order of the file.

    The first 100 are usually for training, and the last 88 for test.

    Returns:
        List of dicts: `ind1` and `inda`, indicators of structure; `logp`, the solubility in fat;
        `lumo`, the energy of the lowest unoccupied orbital; `mutagenic`, 0 or 1; and `atoms`, each
        with `element`, `atom_type`, `charge` and `bonds`, each with `bond_type` and the `element`,
        `atom_type` and `charge` of the other atom.

    Raises:
        FileNotFoundError: if the file `records/mutagenesis.json` is not there.
        ValueError: if it is damaged, or a molecule has another form.
    """
    path = files.find(
        "records/mutagenesis.json",
        instructions="It is mutagenesis.json of https://github.com/CTUAvastLab/datasets.",
    )
    what = "molecules with mutagenic 0 or 1, numbers, and atoms with bonds"
    return files.read_array(path, _is_molecule, what)


def _is_molecule(document: files.Document) -> bool:
    atoms = document.get("atoms")
    return (
        document.keys() == {*_NUMBERS, TARGET, "atoms"}
        and document[TARGET] in (0, 1)
        and all(isinstance(document[name], int | float) for name in _NUMBERS)
        and isinstance(atoms, list)
        and all(map(_is_atom, atoms))
    )


def _is_atom(atom: object) -> bool:
    return (
        isinstance(atom, dict)
        and atom.keys() == _ATOM
        and isinstance(atom["bonds"], list)
        and all(isinstance(bond, dict) and bond.keys() == _BOND for bond in atom["bonds"])
    )
