"""Who judges a virtual world: ten invariants, and what else a job promises.

None of it asks the reducer why: what must be so is read a second time from the documents.
"""
