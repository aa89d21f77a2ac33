"""What each worker would look up by itself: looked up when this is imported, where workers are forked from.

A third of the start of a worker, and most of its first batch.
"""

import gc

from distributed.versions import get_versions

from evogt_study.results.provenance import package_code, software_set

get_versions()  # which workers tell the scheduler, and Dask remembers
package_code()
software_set()
gc.freeze()  # what is there stays: workers that looked through it again and again would have copies of its pages
