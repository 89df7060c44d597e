"""Models and data of other libraries: Keras, TensorFlow Probability, Parquet."""
