"""Languages made for Lamina: text for every task, from a seed, without a file or a download.

Four languages share one lexicon and differ in sounds, endings and order; `marn` and `tuvo` are source and target by
default. All generators are lazy and give as many examples as asked for, always the same for the same arguments. What
a language is does not depend on the seed, and a text belongs to one split only, whatever the seed.
"""

from lamina.data.synthetic.entailments import entailment_pairs
from lamina.data.synthetic.headlines import headline_pairs
from lamina.data.synthetic.language import LANGUAGES
from lamina.data.synthetic.paraphrases import paraphrase_pairs
from lamina.data.synthetic.running_text import running_text
from lamina.data.synthetic.splits import SPLITS
from lamina.data.synthetic.translation import translation_pairs

__all__ = [
    "LANGUAGES",
    "SPLITS",
    "entailment_pairs",
    "headline_pairs",
    "paraphrase_pairs",
    "running_text",
    "translation_pairs",
]
