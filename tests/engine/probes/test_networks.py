"""Networks trained together beside each trained alone by autograd, and the closed-form probes beside scikit-learn."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge

from engine.probes.auditing import ridge_predictions
from engine.probes.networks import Batch, Recipe, Start, initial_weights, train


def train_alone(inputs, target, held_out, start, recipe):
    """Predictions and losses of one plain module under torch's own autograd and Adam."""
    network = torch.nn.Sequential(
        torch.nn.Linear(inputs.shape[1], recipe.hidden), torch.nn.ReLU(), torch.nn.Linear(recipe.hidden, 1)
    ).double()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor(start.inner))
        network[0].bias.copy_(torch.tensor(start.inner_bias))
        network[2].weight.copy_(torch.tensor(start.outer[None]))
        network[2].bias.fill_(start.outer_bias)
    optimiser = torch.optim.Adam(network.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay)
    rows, y = torch.tensor(inputs), torch.tensor(target)
    losses = []
    for _ in range(recipe.epochs):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(network(rows)[:, 0], y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    with torch.no_grad():
        return network(torch.tensor(held_out))[:, 0].numpy(), np.array(losses)


def r_squared(target, predictions):
    return 1 - ((target - predictions) ** 2).sum() / ((target - target.mean()) ** 2).sum()


def starts(width, hidden, n):
    return [initial_weights(width, hidden, np.random.default_rng(i)) for i in range(n)]


def shuffled_batch(n_rows, n_shared, n_networks, hidden, seed=0):
    """Networks on (confidence, H with permuted rows): the batch, and each network's inputs written out plainly."""
    rng = np.random.default_rng(seed)
    confidence, shared = rng.normal(size=n_rows), rng.normal(size=(n_rows, n_shared))
    target = np.abs(np.tanh(confidence) + 0.3 * rng.normal(size=n_rows))
    orders = [np.arange(n_rows), *(rng.permutation(n_rows) for _ in range(n_networks - 1))]
    # H[inverse] beside confidence and target is H beside confidence[order] and target[order].
    plain = [np.column_stack([confidence, shared[np.argsort(order)]]) for order in orders]
    batch = Batch(
        private=np.stack([confidence[order] for order in orders]),
        shared=shared,
        targets=np.stack([target[order] for order in orders]),
        starts=starts(1 + n_shared, hidden, n_networks),
        held_out=rng.normal(size=(200, 1 + n_shared)),
    )
    return batch, plain, target


@pytest.mark.parametrize(
    ("n_rows", "n_shared", "n_networks", "hidden"),
    [(600, 16, 5, 16), (300, 0, 4, 16), (5000, 3, 4, 5), (30, 22, 13, 8)],
)
def test_batched_training_gives_the_numbers_of_training_alone(n_rows, n_shared, n_networks, hidden):
    batch, plain, target = shuffled_batch(n_rows, n_shared, n_networks, hidden)
    recipe = Recipe(hidden=hidden)
    (trained,) = train([batch], recipe)
    held_out_target = np.abs(batch.held_out[:, 0])
    for network in range(n_networks):
        predictions, losses = train_alone(plain[network], target, batch.held_out, batch.starts[network], recipe)
        together = r_squared(held_out_target, trained.predictions[network])
        assert together == pytest.approx(r_squared(held_out_target, predictions), abs=1e-5)
        np.testing.assert_allclose(trained.losses[network], losses, atol=1e-8)


def test_a_step_by_hand():
    """One row x = 2, y = 4 and one unit w = 0.5, b = 0, v = 1, a = 0, so yhat = 1 and r = -3."""
    batch = Batch(
        private=np.array([[2.0]]),
        shared=np.empty((1, 0)),
        targets=np.array([[4.0]]),
        starts=[Start(inner=np.array([[0.5]]), inner_bias=np.zeros(1), outer=np.ones(1), outer_bias=0.0)],
        held_out=np.array([[2.0]]),
    )
    (trained,) = train([batch], Recipe(hidden=1, epochs=1, lr=0.1, weight_decay=0.0))
    assert trained.losses[0, 0] == pytest.approx((1 - 4) ** 2)
    # Every gradient is negative, and Adam's first step is lr against its sign: w 0.6, b 0.1, v 1.1, a 0.1.
    assert trained.predictions[0, 0] == pytest.approx(1.1 * (0.6 * 2 + 0.1) + 0.1, abs=1e-6)


def test_the_number_of_threads_changes_no_bit():
    batch, _, _ = shuffled_batch(5000, 4, 7, 6)
    results = []
    for n_threads in (1, 2, 3):
        torch.set_num_threads(n_threads)
        (trained,) = train([batch], Recipe(hidden=6, epochs=20))
        results.append(trained)
        assert torch.get_num_threads() == n_threads, "train left torch on another number of threads"
    for other in results[1:]:
        assert np.array_equal(results[0].predictions, other.predictions)
        assert np.array_equal(results[0].losses, other.losses)


def test_audits_at_the_same_time_leave_the_number_of_threads_as_it_was():
    batch, _, _ = shuffled_batch(50, 2, 6, 4)
    torch.set_num_threads(2)
    (alone,) = train([batch], Recipe(hidden=4, epochs=300))
    with ThreadPoolExecutor(3) as pool:
        together = [pool.submit(train, [batch], Recipe(hidden=4, epochs=300)) for _ in range(6)]
        assert all(np.array_equal(run.result()[0].predictions, alone.predictions) for run in together)
    # A new thread starts from torch's global setting, which is what must not be left at one.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2


def test_an_interrupt_from_progress_stops_training_and_restores_the_threads():
    batch, _, _ = shuffled_batch(50, 2, 30, 4)
    seen = []

    class Interrupted(Exception):
        pass

    def progress(fraction, _text):
        seen.append(fraction)
        if len(seen) == 3:
            raise Interrupted

    torch.set_num_threads(2)
    with pytest.raises(Interrupted):
        train([batch], Recipe(hidden=4, epochs=100_000), progress)
    assert seen == pytest.approx([1e-5, 2e-5, 3e-5])
    assert torch.get_num_threads() == 2


def test_initial_weights_are_uniform_within_the_fan_in_bound():
    start = initial_weights(25, 4000, np.random.default_rng(0))
    assert np.abs(start.inner).max() <= 1 / 5
    assert start.inner.std() == pytest.approx(1 / 5 / np.sqrt(3), rel=0.01)
    assert np.abs(start.outer).max() <= 1 / np.sqrt(4000)


def test_ridge_is_scikit_learns():
    rng = np.random.default_rng(0)
    inputs, held_out = rng.normal(size=(80, 6)) + 3, rng.normal(size=(20, 6))
    target = rng.normal(size=80)
    expected = Ridge(alpha=2.5).fit(inputs, target).predict(held_out)
    np.testing.assert_allclose(ridge_predictions(inputs, target, held_out, 2.5), expected, atol=1e-10)


def test_without_a_penalty_it_is_least_squares_and_a_constant_column_changes_nothing():
    rng = np.random.default_rng(1)
    inputs, held_out, target = rng.normal(size=(40, 1)), rng.normal(size=(9, 1)), rng.normal(size=40)
    expected = LinearRegression().fit(inputs, target).predict(held_out)
    np.testing.assert_allclose(ridge_predictions(inputs, target, held_out, 0.0), expected, atol=1e-12)
    widened = ridge_predictions(np.c_[inputs, np.zeros(40)], target, np.c_[held_out, np.zeros(9)], 0.0)
    np.testing.assert_allclose(widened, expected, atol=1e-12)
