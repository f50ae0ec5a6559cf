"""The sentence pairs of GLUE."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.errors import UserError
from support.reading import read, write


def test_glue_files_know_their_columns_and_labels(tmp_path: Path) -> None:
    mrpc = write(tmp_path, "mrpc.tsv", '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\tSay "it .\tIt "\n')
    rte = write(tmp_path, "rte.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tnot_entailment\n")
    test = write(tmp_path, "test.tsv", "index\tsentence1\tsentence2\n0\tA.\tB.\n")
    assert read("glue", mrpc)[0].fields == {"first": 'Say "it .', "second": 'It "', "label": 1}
    assert read("glue", rte)[0].fields == {"first": "A.", "second": "B.", "label": 1}
    assert read("glue", test)[0].fields == {"first": "A.", "second": "B."}
    wrong = write(tmp_path, "wrong.tsv", "index\tsentence1\tsentence2\tlabel\n0\tA.\tB.\tentailed\n")
    with pytest.raises(UserError, match=r"line 2: label 'entailed' .* Did you mean 'entailment'"):
        read("glue", wrong)
    lacking = write(tmp_path, "lacking.tsv", "index\tsentence1\tlabel\n0\tA.\tentailment\n")
    with pytest.raises(UserError, match=r"line 1: no column called '#2 String' or 'sentence2'"):
        read("glue", lacking)
