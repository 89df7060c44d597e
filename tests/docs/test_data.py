"""The bundled data are those that data/README.md names."""

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer

DATA = Path(__file__).resolve().parents[2] / "data"


def test_breast_cancer_equals_the_copy_of_scikit_learn():
    table = pd.read_csv(DATA / "breast_cancer.csv")
    source = load_breast_cancer()
    assert list(table.columns) == ["malignant", *(name.replace(" ", "_") for name in source.feature_names)]
    np.testing.assert_array_equal(table["malignant"], 1 - source.target)
    np.testing.assert_array_equal(table.drop(columns="malignant").to_numpy(), source.data)
