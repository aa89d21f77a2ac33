"""Workers that are jobs of a batch system.

- `batch_systems`: workers from SLURM and the like
- `job_queue`: what a batch system's queue says
- `job_keeper`: jobs kept up in number
"""
