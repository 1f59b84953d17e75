"""Files and hub data sets to batches: readers, order, masking, packing."""
