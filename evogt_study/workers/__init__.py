"""Computation of cases in batches.

- `batch`: the cases of a batch computed, and their records
- `stage_cache`: stages that cases share, and the time of each
- `limits`: `Limits`: number of failures, time of a run
- `executor`: batch sizes; workers, connected when they are needed; quick runs in one forked process
- `dask_executor`: batches on any Dask client, a limited number in flight
- `folder_executor`: parts of a plan that array tasks claim in a folder, without a scheduler
- `clusters`: a given client, or workers on this machine
- `batch_systems`: workers or array tasks as jobs of SLURM and similar systems
- `worker_server`: the process from which workers are forked, started before Dask is imported
- `preload`: imported in that process, so that workers inherit its caches
- `signals`: interrupts: deferred and forwarded
"""
