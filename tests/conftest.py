"""One thread for the whole suite: its many small programs run faster without handing kernels between threads."""

import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
