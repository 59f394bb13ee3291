"""Words that say nothing about a tool."""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The different words of a text."""
    return frozenset(text.split())


ENGLISH = word_set(
    """
    a an the of to in on for and or is are be was were it its this that these those with from by as
    at i me my you your we us our can could would should please will do does did have has had what
    which who how when where if then than there here about into so not any some want need like using
    used just let am been also s t d ll ve don im
    """
)
"""Left out of documents and queries."""

FOREIGN = word_set(
    """
    der die das den dem des ein eine einen einem einer eines und oder ist sind mit von aus auf fur
    für zum zur bei nach wie ich mir mein meine meinen nicht alle allen kann bitte auch wird werden
    le la les un une des du de et ou est sont avec dans pour sur par mon mes ma ce cette ces qui que
    quel quelle pas el los las una unos unas del y es con por para mi mis este esta estos como
    quiero cual il lo gli uno della delle dei per sono che questo non mio mia o os as um uma do da
    dos das com meu minha em no na i w z na do dla jest mi moje mój moja jak co czy nie się sie jaki
    jaka het een van met voor mijn niet zijn ir ar su be is iš į ant po per prie uz už nuo kad kaip
    man mano reikia noriu yra kas kuri kuris kurie visus visas arba bei tai del dėl apie pagal tarp
    kur ką kam savo mane и в на с по для из от как что мне мой моя мои или все это не я
    """
)
"""Function words of other languages: unknown words that never stand for one that looks like them."""

FUNCTION_WORDS = ENGLISH | FOREIGN
