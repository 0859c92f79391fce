"""NonMaxSuppression on the host: how many boxes are left depends on the data, so no graph can hold them.

The onnx package's evaluator compares boxes one by one in Python, which takes minutes for a detector's 25,000; here a
chosen box is compared with all others at once.
"""

from __future__ import annotations

import numpy as np

from dmlvk.onnx.host.evaluation.call import Array, Call, NotComputed, computes


def non_max_suppression(
    boxes: Array, scores: Array, most: int, overlap: float, least: float | None, *, centered: bool
) -> Array:
    """The boxes that are left, the best ones first: rows of batch, class and box.

    Args:
        boxes: batch, box, 4: two corners (y, x), or the center and the sizes (x, y, width, height).
        scores: batch, class, box.
        overlap: what the intersection may be of the union, of two that are both left.
        least: what a score must be above; ``None``: anything.
    """
    found = []
    for batch, (corners, classes) in enumerate(zip(_corners(boxes, centered=centered), scores, strict=True)):
        for number, of_class in enumerate(classes):
            chosen = _chosen(corners, of_class, most, overlap, least)
            found.append(np.stack([np.full(len(chosen), batch), np.full(len(chosen), number), chosen], 1))
    rows = np.concatenate(found) if found else np.zeros((0, 3))
    return rows.astype(np.int64)


def _corners(boxes: Array, *, centered: bool) -> Array:
    """batch, box, 4: least and largest place along both axes."""
    if centered:
        half = boxes[..., 2:] / 2
        return np.concatenate([boxes[..., :2] - half, boxes[..., :2] + half], -1)
    first, second = boxes[..., :2], boxes[..., 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _chosen(corners: Array, scores: Array, most: int, overlap: float, least: float | None) -> Array:
    candidates = np.arange(len(scores)) if least is None else np.flatnonzero(scores > np.float32(least))
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    chosen: list[int] = []
    while order.size and len(chosen) < most:
        best, order = order[0], order[1:]
        chosen.append(int(best))
        order = order[~_overlaps(corners[best], corners[order], overlap)]
    return np.array(chosen, np.int64)


def _overlaps(box: Array, others: Array, overlap: float) -> Array:
    """Whether others share more with a box than they may."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    shared = np.where((sides > 0).all(1), sides[:, 0] * sides[:, 1], 0)
    area, areas = np.prod(box[2:] - box[:2]), np.prod(others[:, 2:] - others[:, :2], 1)
    union = area + areas - shared
    is_real = (shared > 0) & (area > 0) & (areas > 0) & (union > 0)
    return np.asarray(is_real & (shared / np.where(is_real, union, 1) > np.float32(overlap)))


@computes("NonMaxSuppression")
def boxes_left(call: Call) -> Array:
    boxes, scores = call.array(0), call.array(1)
    if boxes.ndim != 3 or scores.ndim != 3 or boxes.shape[2] != 4:
        raise ValueError(f"boxes of {list(boxes.shape)} and scores of {list(scores.shape)}")
    if boxes.shape[:2] != (scores.shape[0], scores.shape[2]) or not boxes.dtype == scores.dtype == np.float32:
        raise ValueError(
            f"{boxes.dtype} boxes of {list(boxes.shape)} for {scores.dtype} scores of {list(scores.shape)}"
        )
    bounds = [call.array(index).reshape(-1) if call.has(index) else None for index in (2, 3, 4)]
    if any(bound is not None and bound.size != 1 for bound in bounds):
        raise NotComputed("bounds of several elements")
    most, overlap, least = (None if bound is None else bound[0].item() for bound in bounds)
    centered = bool(call.integer("center_point_box", 0))
    return non_max_suppression(boxes, scores, int(most or 0), float(overlap or 0), least, centered=centered)
