"""Lamina's models as models of Hugging Face's transformers: config, classes, tokenizer and folder."""
