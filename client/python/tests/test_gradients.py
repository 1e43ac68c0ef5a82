"""Gradients, optimisers and recorded graphs."""
import numpy as np
import pytest

import fusion as xp

X = xp.asarray([1.0, 2.0, 3.0])


def test_gradients_of_arguments_and_of_what_holds_them():
    assert xp.grad(lambda x: xp.sum(x**3))(X).tolist() == [3.0, 12.0, 27.0]
    value, (a, b) = xp.value_and_grad(lambda x, y: xp.sum(x * y), argnums=(0, 1))(X, X + 1)
    assert float(value) == 20.0 and a.tolist() == [2.0, 3.0, 4.0] and b.tolist() == [1.0, 2.0, 3.0]
    g = xp.grad(lambda p: xp.sum(p["w"] * p["rest"][0]))({"w": X, "rest": [X + 1]})
    assert g["w"].tolist() == [2.0, 3.0, 4.0] and g["rest"][0].tolist() == [1.0, 2.0, 3.0]


def test_second_derivatives():
    first = xp.grad(lambda x: xp.sum(x**3))
    assert xp.grad(lambda x: xp.sum(first(x)))(X).tolist() == [6.0, 12.0, 18.0]


def test_a_bound_that_is_a_number_takes_all_of_the_gradient_and_an_array_shares_it():
    def gradient(**bounds):
        return xp.grad(lambda x: xp.sum(xp.clip(x, **bounds)))(X).tolist()
    assert gradient(min=2) == [0.0, 0.0, 1.0] and gradient(max=2) == [1.0, 0.0, 0.0] and gradient(min=1, max=3) == [0.0, 1.0, 0.0]
    two = xp.asarray(2.0)
    assert gradient(min=two) == [0.0, 0.5, 1.0] and gradient(max=two) == [1.0, 0.5, 0.0]
    assert xp.clip(xp.asarray([-np.inf, np.nan, np.inf]), max=1.0).tolist()[::2] == [-np.inf, 1.0]


def test_gradients_pass_through_indexing_and_assignment():
    def f(x):
        y = x * 1.0
        y[1:] *= 10.0
        y[0] = 0.0
        return xp.sum(y * y)
    assert np.allclose(np.asarray(xp.grad(f)(X)), [0.0, 400.0, 600.0])


def test_a_product_of_a_row_and_the_jacobian():
    y, back = xp.vjp(lambda a, b: a * b, X, X + 1)
    assert y.tolist() == [2.0, 6.0, 12.0]
    for _ in range(2):
        a, b = back(xp.asarray([1.0, 0.0, 2.0]))
        assert a.tolist() == [2.0, 0.0, 8.0] and b.tolist() == [1.0, 0.0, 6.0]


def test_what_cannot_be_differentiated_is_refused():
    with pytest.raises(ValueError):
        xp.grad(lambda x: x * 2)(X)
    with pytest.raises(TypeError):
        xp.grad(lambda x: xp.sum(x))(xp.asarray([1, 2]))
    with pytest.raises(TypeError):
        xp.grad(lambda x: 1.0)(3.0)
    assert xp.grad(lambda x: xp.sum(x * x))(X).tolist() == [2.0, 4.0, 6.0]


def test_descent():
    target = xp.asarray([1.0, -2.0, 0.5])
    loss = xp.value_and_grad(lambda p: xp.sum((p - target) ** 2))
    for make in (xp.optim.SGD(0.1, momentum=0.5), xp.optim.Adam(0.1), xp.optim.AdamW(0.1)):
        p = xp.zeros(3)
        first = float(loss(p)[0])
        for _ in range(30):
            p, = make.step([p], [loss(p)[1]])
        assert float(loss(p)[0]) < first / 4


def test_recorded_graphs_give_the_same():
    f = xp.jit(lambda a, b: (a * b + 1, a - b))
    for i in range(3):
        got = f(X + i, X)
        assert got[0].tolist() == ((X + i) * X + 1).tolist() and got[1].tolist() == [float(i)] * 3
