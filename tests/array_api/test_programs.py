"""scikit-learn, SciPy and array-api-extra compute on the device what they compute with NumPy."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import dmlvk
import dmlvk.array_api as xp

sklearn = pytest.importorskip("sklearn")  # of the command in docs/how-to/array-programs.md
pytest.importorskip("scipy")
xpx = pytest.importorskip("array_api_extra")

from scipy import integrate, signal, special, stats  # noqa: E402 - need SciPy
from sklearn import metrics, preprocessing  # noqa: E402 - these need scikit-learn
from sklearn.decomposition import PCA  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.linear_model import LogisticRegression, Ridge  # noqa: E402
from sklearn.metrics import accuracy_score, mean_squared_error, pairwise, r2_score  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, PolynomialFeatures, StandardScaler  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

LIMIT = 5e-6  # As far as results may differ from NumPy's

_generator = np.random.default_rng(0)
X = _generator.normal(size=(60, 5)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
POSITIVE = np.abs(X) + np.float32(0.1)


@pytest.fixture(autouse=True)
def dispatched() -> Iterator[None]:
    """scikit-learn asks arrays for their namespace."""
    with sklearn.config_context(array_api_dispatch=True):
        yield


def on_device(estimator: Any) -> Any:
    moved = copy.copy(estimator)
    for name, value in vars(estimator).items():
        if isinstance(value, np.ndarray):
            setattr(moved, name, xp.asarray(value.astype(np.float32) if value.dtype == np.float64 else value))
    return moved


def check_same(made: Any, wanted: Any, limit: float = LIMIT) -> None:
    """Compares what was computed on the device with what NumPy computed."""
    assert isinstance(made, (xp.Array, float)), type(made)
    np.testing.assert_allclose(np.asarray(made), np.asarray(wanted), rtol=limit, atol=limit)


@pytest.mark.parametrize("method", ["decision_function", "predict", "predict_proba"])
def test_logistic_regression_predicts(method: str) -> None:
    model = LogisticRegression().fit(X, Y)
    check_same(getattr(on_device(model), method)(xp.asarray(X)), getattr(model, method)(X))


def test_principal_components_are_applied() -> None:
    model = PCA(3).fit(X)
    moved = on_device(model)
    check_same(moved.transform(xp.asarray(X)), model.transform(X))
    check_same(moved.inverse_transform(moved.transform(xp.asarray(X))), model.inverse_transform(model.transform(X)))
    with pytest.raises(dmlvk.UnsupportedError, match="eigh: DirectML has no decomposition"):
        PCA(3).fit(xp.asarray(X))


@pytest.mark.parametrize("kind", [StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer, PolynomialFeatures])
def test_transformers_are_fitted_and_applied(kind: Any) -> None:
    check_same(kind().fit(xp.asarray(X)).transform(xp.asarray(X)), kind().fit(X).transform(X))


def test_classifiers_and_regressions_predict() -> None:
    for model in (Ridge().fit(X, X[:, 0]), LinearDiscriminantAnalysis().fit(X, Y)):
        check_same(on_device(model).predict(xp.asarray(X)), model.predict(X))
    check_same(GaussianNB().fit(xp.asarray(X), xp.asarray(Y)).predict(xp.asarray(X)), GaussianNB().fit(X, Y).predict(X))


@pytest.mark.parametrize(
    "name",
    [
        "additive_chi2_kernel", "chi2_kernel", "cosine_distances", "cosine_similarity", "euclidean_distances",
        "laplacian_kernel", "linear_kernel", "manhattan_distances", "polynomial_kernel", "rbf_kernel", "sigmoid_kernel",
    ],
)  # fmt: skip
def test_pairwise_distances(name: str) -> None:
    function = getattr(pairwise, name)
    a, b = POSITIVE[20:], POSITIVE[:20]
    # Distances of floats are differences of squares, which scikit-learn takes in float64 where there is one.
    check_same(function(xp.asarray(a), xp.asarray(b)), function(a, b), 1e-4 if name == "euclidean_distances" else LIMIT)


def test_scores() -> None:
    model = LogisticRegression().fit(X, Y)
    made = accuracy_score(xp.asarray(Y), on_device(model).predict(xp.asarray(X)))
    assert made == pytest.approx(accuracy_score(Y, model.predict(X)))
    for function in (r2_score, mean_squared_error):
        assert function(xp.asarray(X[:, 0]), xp.asarray(X[:, 1])) == pytest.approx(function(X[:, 0], X[:, 1]), rel=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "f1_score", "precision_score", "recall_score", "jaccard_score", "zero_one_loss", "cohen_kappa_score",
        "confusion_matrix", "precision_recall_fscore_support",
    ],
)  # fmt: skip
def test_scores_of_labels(name: str) -> None:
    guessed = np.where(X[:, 2] > 1, 1 - Y, Y)
    found, wanted = getattr(metrics, name)(xp.asarray(Y), xp.asarray(guessed)), getattr(metrics, name)(Y, guessed)
    for own, other in zip(found[:3], wanted[:3], strict=True) if isinstance(found, tuple) else [(found, wanted)]:
        check_same(own, other)


@pytest.mark.parametrize(
    "name",
    [
        "precision_recall_curve", "average_precision_score", "log_loss",
        "brier_score_loss", "mean_absolute_error", "mean_poisson_deviance", "median_absolute_error",
    ],
)  # fmt: skip
def test_scores_of_shares(name: str) -> None:
    shares = (1 / (1 + np.exp(-X[:, 0] * 2 - X[:, 2]))).astype(np.float32)
    function, labels = getattr(metrics, name), Y + 1 if name == "mean_poisson_deviance" else Y
    truth = labels.astype(np.float32) if name.startswith("me") else labels
    found, wanted = function(xp.asarray(truth), xp.asarray(shares)), function(truth, shares)
    for own, other in zip(found[:2], wanted[:2], strict=True) if isinstance(found, tuple) else [(found, wanted)]:
        check_same(own, other)


@pytest.mark.parametrize(
    ("estimator", "given"),
    [
        (preprocessing.Binarizer(threshold=0.3), X),
        (preprocessing.KernelCenterer(), X @ X.T),
        (preprocessing.LabelBinarizer(), Y),
        (preprocessing.LabelEncoder(), Y + 3),
    ],
)
def test_more_transformers_are_fitted_and_applied(estimator: Any, given: Any) -> None:
    check_same(estimator.fit_transform(xp.asarray(given)), estimator.fit_transform(given))


def test_linear_models_are_fitted_by_descent() -> None:
    found = LogisticRegression().fit(xp.asarray(X), xp.asarray(Y))
    assert isinstance(found.coef_, xp.Array)
    check_same(found.predict_proba(xp.asarray(X)), LogisticRegression().fit(X, Y).predict_proba(X), 1e-3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: special.logsumexp(x, axis=1),
        lambda x: special.softmax(x, axis=1),
        lambda x: special.log_softmax(x, axis=1),
        special.expit,
        stats.zscore,
        stats.skew,
        stats.kurtosis,
        stats.sem,
        stats.entropy,
        stats.gmean,
        stats.hmean,
        lambda x: stats.moment(x, 3),
        lambda x: stats.pearsonr(x[:, 0], x[:, 1]).statistic,
        lambda x: stats.ttest_1samp(x, 0.0).statistic,
        lambda x: signal.detrend(x, type="constant"),
        integrate.trapezoid,
    ],
)
def test_scipy_dispatches(function: Callable[[Any], Any]) -> None:
    check_same(function(xp.asarray(POSITIVE)), function(POSITIVE), 1e-4)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: xpx.atleast_nd(x[0], ndim=3), X[:1, None, :].transpose(1, 0, 2)),
        (lambda x: xpx.kron(x[:2, :2], x[:2, :2]), np.kron(X[:2, :2], X[:2, :2])),
        (lambda x: xpx.create_diagonal(x[0]), np.diag(X[0])),
        (lambda x: xpx.pad(x, 1), np.pad(X, 1)),
        (lambda x: xpx.sinc(x), np.sinc(X)),
        (lambda x: xpx.one_hot(xp.asarray(Y), 2), np.eye(2)[Y]),
        (lambda x: xpx.at(x)[0, 0].set(5.0), np.concatenate([[5], X.ravel()[1:]]).reshape(X.shape)),
        (lambda x: xpx.expand_dims(x, axis=(0, 1)), X[None, None]),
        (lambda x: xpx.apply_where(x > 0, (x,), lambda a: a * 2, fill_value=0.0), np.where(X > 0, X * 2, 0)),
        (lambda x: xpx.setdiff1d(xp.asarray([1, 2, 3]), xp.asarray([2])), [1, 3]),
        (lambda x: xp.astype(xpx.isclose(x, x), xp.float32), np.ones_like(X)),
    ],
)
def test_array_api_extra(function: Callable[[Any], Any], wanted: Any) -> None:
    check_same(function(xp.asarray(X)), wanted)


def test_what_needs_float64_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="float64 is not supported: Vulkan devices need not have float64 arithmetic"):
        xpx.cov(xp.asarray(X))
