"""The fault grid: everyday faults, each injected into two models, and what the diagnosis says of them.

python -m lamina.studies.faults
"""
