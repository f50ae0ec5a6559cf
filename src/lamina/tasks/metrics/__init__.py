"""The metrics of the papers, computed by the libraries that the field trusts."""
