"""One file per verdict: a pure function from measures to plain sentences.

Each gives one verdict per stack, the fine ones too, and nothing where its measure was not taken.
"""
