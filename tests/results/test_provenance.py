"""What a result says of the software that computed it."""

import os
import subprocess
import sys

import pytest

from evogt_study.results.provenance import read_versions
from evogt_study.workers.runner import ONE_THREAD


@pytest.mark.parametrize("imported", ["json", "evogt_study.pde.methods.evolution"])
def test_the_software_of_a_run_does_not_depend_on_what_else_its_process_has_imported(imported):
    """Workers of a batch system, forked ones and the command itself import different things."""
    code = f"import {imported}\nfrom evogt_study.results.provenance import read_versions\nprint(read_versions())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | ONE_THREAD, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == read_versions()
