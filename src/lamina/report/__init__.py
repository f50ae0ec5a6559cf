"""Reports of run folders and diagnoses: figures, pages, and tables on a terminal."""
