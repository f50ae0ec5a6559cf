"""Other libraries: Hugging Face models and its Trainer."""
