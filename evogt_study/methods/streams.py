"""Random streams: the generator `rng` of a run, and draws without a seed.

A user function with an argument `rng` that the study does not set receives a generator.  The seed and the words of the
case decide its stream.  Draws from `random` and ``numpy.random`` that use no generator depend on the run key.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import mtrand

from evogt_study.errors import ParameterError
from evogt_study.schema.parameters import Parameter, integer
from evogt_study.schema.values import Values, canonical_json

RNG, SEED = "rng", "seed"
ALL, NONE = "all", "none"
Common = str | tuple[str, ...]
"""Parameters along which a seed is one stream: `ALL`, `NONE`, or names."""
STREAMS = "streams"
"""Attribute of the coordinate `seed`: JSON with `common`, the parameters along which a seed is one stream."""


def add_seed(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    """Return the parameters of a function; a function with `rng` also has a `seed`, and `rng` may have no value."""
    if RNG not in parameters:
        return dict(parameters)
    known = parameters[SEED].default if SEED in parameters else None
    default = None if isinstance(known, bool) or not isinstance(known, (int, np.integer)) else known
    seed = Parameter(
        SEED, "an integer >= 0", integer(0), "seed of the random stream", default=default,
        remedy="the generator `rng` is made from it: set it in [axes] or [constants]",
    )  # fmt: skip
    return {**parameters, RNG: replace(parameters[RNG], default=None, optional=True), SEED: seed}


def omit_unused_seed(names: Iterable[str], arguments: Sequence[str], values: Values) -> tuple[str, ...]:
    """Return `names` without the seed of a case whose `rng` has a value, if it is no argument of the function."""
    unused = RNG in values and SEED not in arguments
    return tuple(name for name in names if name != SEED or not unused)


def check_seed(arguments: Sequence[str], values: Values) -> None:
    """Raise ParameterError for a seed without effect."""
    if RNG in values and SEED in values and SEED not in arguments:
        raise ParameterError(SEED, "left out where `rng` has a value", values[SEED])


def add_generator(arguments: dict[str, Any], names: Sequence[str], values: Values, common: Common) -> dict[str, Any]:
    """Return the arguments of a call: `rng` is a generator if it has no value, and the seed is passed to a `seed`."""
    if RNG in arguments or RNG not in names:
        return arguments
    return {name: value for name, value in arguments.items() if name in names} | {RNG: make_generator(values, common)}


def describe_common(common: Common, parameters: Collection[str], function: str) -> dict[str, Common]:
    """Return the part of a setup that decides the words of a function with these parameters."""
    return {"common": common, "drawn by": function} if RNG in parameters and common != ALL else {}


def hash_words(values: Values, common: Common) -> list[int]:
    """Return the words of a case: none if its seed is one stream everywhere, else 8, of its other parameters.

    values: also the name of the function under "method", and the problem under "problem", which can be axes.
    """
    shared = {*values} if common == ALL else {SEED, *(common if isinstance(common, tuple) else ())}
    own = {name: value for name, value in values.items() if name not in shared}
    if not own:
        return []
    # of text, so that they are the same on every platform
    digest = hashlib.sha256(canonical_json(own).encode()).digest()
    return [int(word) for word in np.frombuffer(digest, dtype=">u4")]


def make_generator(values: Values, common: Common) -> np.random.Generator:
    """Return the generator of a case.  If its seed is one stream everywhere, it is ``default_rng(seed)``."""
    seed: Any = values[SEED]
    return np.random.default_rng(np.random.SeedSequence([int(seed), *hash_words(values, common)]))


def describe_streams(common: Common) -> str:
    """Return the text of the attribute `STREAMS`."""
    return json.dumps({"common": common})


@contextmanager
def isolate_global_draws() -> Iterator[Callable[[str], None]]:
    """Yield a function that seeds `random` and ``numpy.random`` from a run key; restore both at the end."""
    python, bits, numpy = random.getstate(), mtrand.get_bit_generator(), np.random.get_state(legacy=False)
    mtrand.set_bit_generator(np.random.MT19937(0))
    try:
        yield _seed_global_draws
    finally:
        random.setstate(python)
        mtrand.set_bit_generator(bits)
        np.random.set_state(numpy)


def _seed_global_draws(key: str) -> None:
    random.seed(key)
    np.random.seed(np.frombuffer(hashlib.sha256(key.encode()).digest(), dtype="<u4"))
