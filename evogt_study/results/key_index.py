"""Cases found by their keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evogt_study.planning.case_keys import Keys


class KeyIndex:
    """The cases of `keys`, by number, that have one."""

    def __init__(self, keys: Keys) -> None:
        order = np.argsort(keys, kind="stable")
        self._cases = order[np.count_nonzero(keys == b"") :]  # empty ones come first
        self._keys = keys[self._cases]

    def found(self, wanted: Keys) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Numbers of the keys that cases have, and of the cases in order, one pair for each case.

        Of equal keys the first counts.
        """
        different, first = np.unique(wanted, return_index=True)
        begin = np.searchsorted(self._keys, different, "left")
        count = np.searchsorted(self._keys, different, "right") - begin
        ahead = np.cumsum(count) - count
        case = self._cases[np.repeat(begin - ahead, count) + np.arange(count.sum())]
        by_case = np.argsort(case)
        return np.repeat(first, count)[by_case], case[by_case]
