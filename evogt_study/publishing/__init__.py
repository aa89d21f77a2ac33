"""Results prepared for sharing: HTML pages, and deposits for a repository of research data.

- `report`: the page of one result
- `contents`: files of a deposit, with the software versions that computed the result
- `metadata`: creators; CITATION.cff and RO-Crate
- `publish`: the deposit: README, pages, manifest; written and checked
"""
