"""The measure `outlier-channels`."""

from __future__ import annotations

from statistics import median

import pytest
import torch

from lamina.diagnosis.measures.outlier_channels import OutlierChannels
from support.recorded import by_hand, fact, line, mean_of, take, tensor_record


def test_kurtosis_and_largest_by_a_plain_loop(float64: None) -> None:
    x = torch.randn(6, 5)
    x[:, 2] *= 30
    record = by_hand([tensor_record(x), tensor_record(x), tensor_record(torch.ones(6, 5))])
    (found,) = mean_of([[take(OutlierChannels, record)]])
    sizes = [(sum(x[row, channel].item() ** 2 for row in range(6)) / 6) ** 0.5 for channel in range(5)]
    kurtosis = (sum(each**4 for each in sizes) / 5) / (sum(each**2 for each in sizes) / 5) ** 2
    assert line(found, quantity="kurtosis") == pytest.approx((kurtosis, 1.0))
    assert line(found, quantity="largest/median") == pytest.approx((max(sizes) / median(sizes), 1.0))
    assert fact(found, "largest/median", stack="stack") == pytest.approx(max(sizes) / median(sizes))
