"""Who judges a virtual world: ten invariants, and the laws that hold of every step beside them.

None of it asks the reducer why: what must be so is read a second time from the documents.
"""
