"""Greedy decoding: the best next token, again and again. Rows that have ended leave the batch."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lamina.model.encoder_decoder import EncoderDecoder
from lamina.model.sequences import Lengths


@torch.no_grad()
def decode_greedily(
    model: EncoderDecoder, source: Tensor, source_lengths: Lengths, *, bos: int, eos: int, max_length: Lengths
) -> list[list[int]]:
    """The target tokens of each packed source sentence, without bos and eos; at most `max_length[i]` of them."""
    was_training = model.training
    model.eval()
    memory, memory_sequences = model.encode(source, source_lengths)
    limits = np.asarray(max_length)
    count = memory_sequences.num_sequences
    outputs: list[list[int]] = [[] for _ in range(count)]
    cache = model.new_cache(count, capacity=int(limits.max()) + 1)
    active = np.arange(count)  # the sentence of each row that is still open
    tokens = torch.full((count,), bos, device=source.device)
    while len(active):
        scores = model.step(tokens, [1] * len(active), memory, memory_sequences, cache)
        tokens = scores.argmax(-1)
        chosen = tokens.cpu().numpy()
        for sentence, token in zip(active, chosen, strict=True):
            if token != eos:
                outputs[sentence].append(int(token))
        still_open = (chosen != eos) & (np.array([len(outputs[sentence]) for sentence in active]) < limits[active])
        if not still_open.all():
            kept = torch.from_numpy(np.flatnonzero(still_open)).to(source.device)
            active, tokens = active[still_open], tokens[kept]
            if len(active):
                cache.reorder(kept, sentences=kept)  # the cache holds all that is read of the source
    model.train(was_training)
    return outputs
