"""The mark-up of IWSLT and WMT."""

from __future__ import annotations

from pathlib import Path

import pytest

from lamina.data.readers import Notes
from lamina.errors import UserError
from support.reading import fields, read, write

TALK = """<url>http://a</url>
<keywords>talks, x</keywords>
<talkid>1</talkid>
<title>{0} title</title>
<description>{0} description &amp; more</description>
{0} one
 {0} two with <b> inside

"""


SGML = """<refset setid="n" srclang="any" trglang="{0}">
<doc docid="1"><hl>
<seg id="1">{0} head &quot;line&quot;</seg>
</hl><p>
<seg id="2"> {0} text </seg>
<seg id="3"></seg>
</p></doc></refset>
"""


def test_markup_of_iwslt_and_wmt(tmp_path: Path) -> None:
    talks = [write(tmp_path, f"train.tags.de-en.{side}", TALK.format(side)) for side in ("de", "en")]
    notes = Notes()
    expected = ["{} title", "{} description & more", "{} one", "{} two with <b> inside"]
    assert fields(read("parallel", *talks, notes=notes)) == [(t.format("de"), t.format("en")) for t in expected]
    assert notes.dropped() == {"empty": 1}
    news = [write(tmp_path, f"newstest-{side}.sgm.gz", SGML.format(side)) for side in ("en", "de")]
    notes = Notes()
    examples = read("parallel", *news, notes=notes)
    assert fields(examples) == [('en head "line"', 'de head "line"'), ("en text", "de text")]
    assert [example.line for example in examples] == [3, 5]
    assert notes.dropped_lines() == {"empty": {news[0]: [6]}}


def test_markup_faults(tmp_path: Path) -> None:
    good = write(tmp_path, "good.sgm", SGML.format("x"))
    short = write(tmp_path, "short.sgm", '<seg id="1">x</seg>\n')
    broken = write(tmp_path, "broken.xml", "<doc>\n<seg id='1'>one\n</seg>")
    none = write(tmp_path, "none.xml", "<doc>\n</doc>\n")
    for pair, complaint in (
        ((good, short), r"good.sgm has 3 lines but .*short.sgm has 1"),
        ((good, broken), r"broken.xml, line 2: a <seg> that does not close"),
        ((good, none), r"none.xml: no sentence found"),
    ):
        with pytest.raises(UserError, match=complaint):
            read("parallel", *pair)
