"""One thread for the whole suite.

With several, XLA's CPU runtime runs the kernels of a loop concurrently; on programs of thousands of chains, as the
statistical tests use them, that was seen to give wrong results (TensorFlow 2.21), besides being slower.
"""

import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
