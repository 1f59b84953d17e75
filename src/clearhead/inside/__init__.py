"""Look inside: the trace of one forward pass, and pictures of it as self-contained pages."""

from clearhead.inside.block_view import one_block as one_block
from clearhead.inside.bottleneck import bottleneck as bottleneck
from clearhead.inside.by_hand import by_hand as by_hand
from clearhead.inside.decoding import decoding as decoding
from clearhead.inside.difference import difference as difference
from clearhead.inside.faithfulness import why as why
from clearhead.inside.heads_view import heads_on_top as heads_on_top
from clearhead.inside.input_view import position_tables as position_tables
from clearhead.inside.input_view import summed_input as summed_input
from clearhead.inside.layers import through_layers as through_layers
from clearhead.inside.lecture_tables import lecture_tables as lecture_tables
from clearhead.inside.model_view import whole_model as whole_model
from clearhead.inside.page import live as live
from clearhead.inside.pretraining_view import pretraining as pretraining
from clearhead.inside.runs import training_runs as training_runs
from clearhead.inside.senses import senses_of as senses_of
