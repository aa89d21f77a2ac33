"""A method of one's own, of a result that is kept here."""

SCALE = 2.0  # which counts


def method(level, seed, shift=1):
    return {"error": SCALE * level + shift + seed / 8, "history": ("k", [level, seed])}


def another():
    return 0
