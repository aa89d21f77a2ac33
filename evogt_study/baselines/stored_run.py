"""A run that `solve` returned and that was written to a file, as the parts of a reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from evogt_study.errors import ParameterError, shortened
from evogt_study.storage.hdf5 import HDF5_LOCK

COEFFICIENTS = "feature_coefficients"


def resolved_reference(raw: Any, folder: Path) -> Any:
    """A reference as it is stated, or the parts of the run in the file that it names, relative to `folder`."""
    return stored_run(folder / raw) if isinstance(raw, str) and raw.endswith(".nc") else raw


def stored_run(path: Path) -> dict[str, Any]:
    """times (S,), coefficients (S, N) and attributes.  Raises ParameterError where the file holds none."""
    import netCDF4  # here: workers import no NetCDF

    try:
        with HDF5_LOCK, netCDF4.Dataset(path) as file:
            attributes = {name: _plain(file.getncattr(name)) for name in file.ncattrs()}
            times, coefficients = (np.asarray(file[name][:], dtype=float) for name in ("time", COEFFICIENTS))
    # netCDF4 raises IndexError for a variable that is not there
    except (OSError, IndexError) as error:
        raise ParameterError(
            "reference", f"a file of what `solve` returned ({shortened(str(error))})", str(path)
        ) from None
    return {"times": times, "coefficients": coefficients, "attributes": attributes}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
