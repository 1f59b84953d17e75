"""The official definitions of the metrics, and the tables.

A metric has the unit its official script prints: percent for SQuAD, CoNLL, BLEU and chrF, all others from 0 to 1.
"""
