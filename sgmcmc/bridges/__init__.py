"""Models and data from other libraries: Keras, TensorFlow Probability, Parquet."""
