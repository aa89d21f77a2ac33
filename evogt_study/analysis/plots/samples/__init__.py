"""Pictures of a sample's parameters.

- `trend`: a number against sampled parameters
"""
