"""Results made ready for a repository of research data: a folder with all that makes them citable and checkable.

- `contents`: what is deposited of a result, and of several
- `named_files`: files beside a study that its runs need
- `environment_lock`: versions of the packages that computed a result
- `pages`: report pages that weigh little beside the results
- `people`: creators, as each format has them
- `citation`: how the deposit is cited (CITATION.cff)
- `datacite`: the record from which a DOI is registered (DataCite 4.5)
- `ro_crate`: what each file is, and which run made it (RO-Crate 1.2, Workflow Run Crate 0.5)
- `guide`: the README of a deposit
- `bag`: the manifest of all files, written and held against them (BagIt 1.0)
- `publish`: the folder written
- `verify_deposit`: a deposit checked, and a sample of its runs computed again
"""
