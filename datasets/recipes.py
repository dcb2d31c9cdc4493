"""Recipes as lists of ingredients, and the cuisines they are of.

Reference: Yummly, What's Cooking?, Kaggle, 2015.
"""

from keras_mmil.datasets._io import files

__all__ = ["TARGET", "load"]

TARGET = "cuisine"
"""The path of the field to predict."""


def load() -> list[files.Document]:
    """2,500 of the recipes, of 20 cuisines, in the order of the file.

    The first 2,000 are for training, and the last 500 for test.

    Returns:
        List of dicts: `id`, `ingredients`, a list of str, and `cuisine`.

    Raises:
        FileNotFoundError: if the file `records/recipes.jsonl` is not there.
        ValueError: if it is damaged, or a recipe of another form.
    """
    path = files.find(
        "records/recipes.jsonl",
        instructions="It holds a JSON object a line: id, ingredients, cuisine.",
    )
    what = "recipes with id, ingredients and cuisine"
    return files.read_lines(path, _is_recipe, what)


def _is_recipe(document: files.Document) -> bool:
    ingredients = document.get("ingredients")
    return (
        document.keys() == {"id", "ingredients", TARGET}
        and isinstance(document[TARGET], str)
        and isinstance(ingredients, list)
        and all(isinstance(ingredient, str) for ingredient in ingredients)
    )
