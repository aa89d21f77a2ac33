"""HTML pages of results, and deposits for a repository of research data.

- `report`: the page of one result
- `contents`: files of a deposit, with the software versions that computed the result
- `metadata`: creators, CITATION.cff and RO-Crate
- `publish`: writes and checks a deposit
"""
