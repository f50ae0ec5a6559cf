"""What is shown of studies: the page of one, the ledger of all, and both in the terminal."""
