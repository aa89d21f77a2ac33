"""Pictures of a sample's parameters.

- `sensitivity`: shares of sampled parameters, as bars
- `trend`: a number against sampled parameters
- `pairs`: pairs of sampled parameters, coloured by a number
"""
