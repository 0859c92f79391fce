"""scikit-learn's estimators by skl2onnx's defaults, beside ONNX Runtime: ``python -m tests.onnx.estimators``.

Needs scikit-learn and skl2onnx, which the project's tests otherwise do not.
"""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

import click
import numpy as np
import onnxruntime

import dmlvk as dml
import dmlvk.onnx as ort


def estimators() -> dict[str, Any]:
    """Estimators that are not trained yet, by name."""
    from sklearn import (
        cluster,
        decomposition,
        ensemble,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.pipeline import make_pipeline

    return {
        "LogisticRegression": linear_model.LogisticRegression(),
        "LinearRegression": linear_model.LinearRegression(),
        "SGDClassifier": linear_model.SGDClassifier(random_state=0),
        "RidgeClassifier": linear_model.RidgeClassifier(),
        "LinearSVC": svm.LinearSVC(random_state=0),
        "SVC": svm.SVC(),
        "SVR": svm.SVR(),
        "OneClassSVM": svm.OneClassSVM(),
        "DecisionTreeClassifier": tree.DecisionTreeClassifier(random_state=0),
        "RandomForestClassifier": ensemble.RandomForestClassifier(10, random_state=0),
        "GradientBoostingClassifier": ensemble.GradientBoostingClassifier(n_estimators=10, random_state=0),
        "GradientBoostingRegressor": ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0),
        "IsolationForest": ensemble.IsolationForest(n_estimators=10, random_state=0),
        "KNeighborsClassifier": neighbors.KNeighborsClassifier(),
        "GaussianNB": naive_bayes.GaussianNB(),
        "MLPClassifier": neural_network.MLPClassifier((8,), max_iter=30, random_state=0),
        "KMeans": cluster.KMeans(3, n_init=2, random_state=0),
        "StandardScaler, PCA, LogisticRegression": make_pipeline(
            preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.LogisticRegression()
        ),
        "Normalizer, PolynomialFeatures, Ridge": make_pipeline(
            preprocessing.Normalizer(), preprocessing.PolynomialFeatures(2), linear_model.Ridge()
        ),
        "KBinsDiscretizer": preprocessing.KBinsDiscretizer(4, encode="onehot-dense"),
    }


def difference(found: Any, expected: Any) -> str:
    """How two results differ, which may be tables of names and numbers; empty: not at all."""
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return f"{type(found).__name__} for a list of {len(expected)}"
        return next((text for pair in zip(found, expected, strict=True) if (text := difference(*pair))), "")
    if isinstance(expected, dict):
        if not isinstance(found, dict) or list(found) != list(expected):
            return f"{found} for {expected}"
        return difference(np.array(list(found.values())), np.array(list(expected.values())))
    a, b = np.asarray(found), np.asarray(expected)
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
    if b.dtype.kind != "f":
        return "" if (a == b).all() else f"{int((a != b).sum())} of {a.size} differ"
    error = np.abs(a.astype(np.float64) - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-30)
    return "" if error <= 1e-5 else f"{error:.2g} of the largest"


@click.command()
def main() -> None:
    """Compare every estimator's results. Exit status 1: one differs or is refused."""
    from skl2onnx import to_onnx
    from sklearn.datasets import make_classification

    warnings.simplefilter("ignore")
    logging.getLogger("dmlvk").setLevel(logging.ERROR)
    failed = 0
    with dml.Device() as device:
        for classes in (2, 3):
            x, y = make_classification(200, 6, n_informative=4, n_classes=classes, random_state=0)
            x = x.astype(np.float32)
            for name, estimator in estimators().items():
                versions = {"": 17, "ai.onnx.ml": 3} if name == "IsolationForest" else None  # it has no default
                model = to_onnx(estimator.fit(x, y), x[:1], target_opset=versions).SerializeToString()
                feed = {"X": x[:50]}
                expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feed)
                try:
                    session = ort.InferenceSession(model, device=device)
                    text = difference(session.run(None, feed), expected)
                    programs = sorted({item.program or item.place for item in session.partition})
                except dml.DmlError as error:
                    text, programs = str(error), []
                failed += bool(text)
                click.echo(f"{name}, {classes} classes: {text or 'as by ONNX Runtime'} ({', '.join(programs)})")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
