"""What the studies that train models need beyond scale `tiny`: the papers' configs, and the commands that train them.

At scales `small` and `paper` a study is a plan, not a run: its models need GPUs for a day or longer, and its data must
be prepared first. Each config begins with comments that name the data and the commands of the table.
"""

from __future__ import annotations

from pathlib import Path

from lamina.errors import UserError

CONFIGS = Path("configs/papers")
FILES: dict[str, tuple[str, ...]] = {
    "admin-fig1": ("admin-table2-en-de",),
    "admin-fig10": ("admin-fig10",),
    "admin-fig4": ("admin-table2-en-de",),
    "admin-fig5": ("admin-table2-en-de",),
    "admin-fig7": ("admin-table2-en-de",),
    "admin-fig8": ("admin-table2-en-de",),
    "admin-fig9": ("admin-table2-en-de",),
    "admin-fold": ("admin-table2-iwslt",),
    "admin-inits": ("admin-table2-en-de",),
    "admin-table1": ("admin-table2-en-de",),
    "admin-table2": ("admin-table2-iwslt", "admin-table2-en-de", "admin-table2-en-fr"),
    "admin-table3": ("admin-table2-iwslt",),
    "admin-table4": ("admin-table2-en-fr",),
    "admin-warmup": ("admin-table2-en-de",),
    "b2t-ablation": ("b2t-table1",),
    "b2t-fig1": ("b2t-table1",),
    "b2t-fig5": ("b2t-table1",),
    "b2t-fig6": ("b2t-table1",),
    "b2t-fig8": ("b2t-table1",),
    "b2t-fig9": ("b2t-table1",),
    "b2t-table1": ("b2t-table1",),
    "b2t-table10": ("b2t-table2",),
    "b2t-table2": ("b2t-table2",),
    "b2t-table3": ("b2t-table3",),
    "b2t-table4": ("b2t-table4",),
    "b2t-table5": ("b2t-table1", "b2t-table5-t-fixup"),
    "b2t-table6": ("b2t-table2",),
    "b2t-table9": ("b2t-table1",),
    "residual-fig2": ("residual-table2",),
    "residual-fig3": ("residual-table2",),
    "residual-table2": ("residual-table2",),
    "residual-table3": ("residual-table3",),
    "residual-table4": ("residual-table4",),
    "residual-table5": ("residual-table5",),
    "xiong-fig2": ("xiong-fig2",),
    "xiong-fig3": ("xiong-fig2",),
    "xiong-fig4": ("xiong-fig4-iwslt", "xiong-fig4-wmt", "xiong-fig4-wmt-pre-ln"),
    "xiong-fig5": ("xiong-fig5-bert", "xiong-fig5-bert-pre-ln", "xiong-fig5-mrpc", "xiong-fig5-rte"),
    "xiong-fig6": ("xiong-fig6",),
}
"""The configs of each study that trains models."""


def describe_paper_scale(name: str, folder: Path = CONFIGS) -> str:
    """The configs of a study with their introductions, and the command that estimates memory and time."""
    parts = [f"{name} at the paper's sizes: it is not run by this command, but by these."]
    for each in FILES[name]:
        file = folder / f"{each}.toml"
        try:
            lines = file.read_text().splitlines()
        except OSError as error:
            raise UserError(f"{file}: {error.strerror}; the configs are in the repository of Lamina") from error
        introduction = [line.removeprefix("#").strip() for line in lines[: _length_of_comment(lines)]]
        parts.append("\n".join((f"{file}", *(f"  {line}" for line in introduction), f"  lamina plan {file}")))
    return "\n\n".join(parts)


def _length_of_comment(lines: list[str]) -> int:
    """The number of lines of the comment that a file begins with."""
    return next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
