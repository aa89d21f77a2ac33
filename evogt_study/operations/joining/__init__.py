"""Results joined.

- `merge`: results of one study, computed on several machines
- `concat`: results of different studies, along a new dimension
"""
