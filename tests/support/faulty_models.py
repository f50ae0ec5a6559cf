"""A small model of torch's own layers, in which faults can be placed, with a batch and a loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import lamina
from lamina.diagnosis.results import Finding

DIM, WORDS = 8, 20
IDS = torch.randint(0, WORDS, (4, 5), generator=torch.Generator().manual_seed(1))


class WordModel(nn.Module):
    """An embedding, four layers and a head; `cut` is the layer whose input is detached."""

    def __init__(self, cut: int | None = None, *, norm_first: bool = True, dropout: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(WORDS, DIM)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(DIM, 2, 16, dropout, batch_first=True, norm_first=norm_first) for _ in range(4)
        )
        self.head = nn.Linear(DIM, WORDS)
        self.cut = cut

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words)
        for number, layer in enumerate(self.layers):
            x = layer(x.detach() if number == self.cut else x)
        return self.head(x)

    def part(self, path: str) -> Tensor:
        """A parameter by its path."""
        return self.get_parameter(path).data


def word_loss(output: Tensor, words: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.float().flatten(0, 1), words.flatten())


def findings_of(model: nn.Module, check: str) -> list[Finding]:
    """What a check finds in a diagnosis on two batches."""
    report = lamina.diagnose(model, IDS, word_loss, batches=2)
    return [each for each in report.findings if each.check == check]


def places(findings: list[Finding]) -> dict[str | None, tuple[str, str]]:
    """Severity and the first words of the sentence, by module; findings that are fine are left out."""
    return {
        each.location.module: (each.severity, each.sentence.partition(":")[0])
        for each in findings
        if each.severity != "fine"
    }
