"""The studies, one per table or figure of the papers: `xiong_fig3.py` is `lamina study xiong-fig3`."""

from lamina.registry import Registry
from lamina.studies.study import Study

STUDIES = Registry(__name__, Study, kind="study", group="lamina.studies")  # type: ignore[type-abstract]
