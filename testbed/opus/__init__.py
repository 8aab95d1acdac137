"""The control protocol of the authors' own Opus (arXiv 2602.12521) on real lines, both sides.

Rails have a word each, as the authors' (`word_rails`), or circuits of a lab, by the rules of our
own jobs (`circuit_rails`). Bytes and order are those recorded from commit 53f8d514 of
github.com/opusfabric/Opus; what is malformed ends a line here, where theirs goes on or aborts.
"""
