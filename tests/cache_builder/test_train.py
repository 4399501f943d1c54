"""Training: the same weights twice, the same weights after a kill, and that something is learnt."""

import fcntl

import numpy as np
import pytest
import torch

from cache_builder.checkpoint import claimed, load_checkpoint, save_checkpoint
from cache_builder.devices import pick_device
from cache_builder.train import Trainer, build_model, derived_seed, loss_of, train
from engine.core.errors import CacheError, InvalidInput


class Killed(Exception):
    pass


def weights(trained):
    return {name: value.clone() for name, value in trained.model.state_dict().items()}


def assert_same(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("backbone", "variant", "block_size"),
    [
        ("micro_vit", "full_ar", None),
        ("micro_swin", "block_ar", 2),
        ("micro_vit", "attnres", 3),
        ("micro_vit", "moe", None),
        ("micro_deit", "drloc", None),
    ],
)
def test_resume_after_a_kill_gives_the_same_weights_bit_for_bit(
    tmp_path, digits, tiny_config, backbone, variant, block_size
):
    config = tiny_config(backbone=backbone, variant=variant, block_size=block_size)
    whole = train(config, digits, tmp_path / "whole", device="cpu")

    def kill_in_epoch(number):
        def progress(fraction, _text):
            if fraction * config.epochs > number:
                raise Killed

        return progress

    for number in (1, 2.5, 3):  # in the middle of an epoch, and right after a checkpoint
        with pytest.raises(Killed):
            train(config, digits, tmp_path / "killed", device="cpu", progress=kill_in_epoch(number))
    resumed = train(config, digits, tmp_path / "killed", device="cpu")
    assert_same(weights(whole), weights(resumed))
    assert np.array_equal(whole.members[-1].logits, resumed.members[-1].logits)
    assert np.array_equal(whole.members[0].captured, resumed.members[0].captured)
    assert whole.history == resumed.history


def test_seeds_give_the_same_weights_twice_and_different_seeds_do_not(tmp_path, digits, tiny_config):
    first, again, other = (
        train(tiny_config(seed=seed, epochs=1), digits, tmp_path / name, device="cpu")
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert_same(weights(first), weights(again))
    assert not torch.equal(first.model.head.weight, other.model.head.weight)


def test_learning_happens(tmp_path, digits, tiny_config):
    config = tiny_config(limit_train=None, limit_test=None, epochs=10, learning_rate=3e-3, entropy_stride=5)
    trained = train(config, digits, tmp_path, device="cpu")
    assert trained.members[-1].accuracy(digits.test.labels) > 0.7  # ten classes: chance is 0.1
    assert trained.members[-1].captured.std(axis=1).std() > 1e-3  # queries moved: routing is not stuck at uniform


def test_the_final_epoch_is_always_sampled_and_history_has_the_stride(tmp_path, digits, tiny_config):
    trained = train(tiny_config(epochs=5, entropy_stride=2), digits, tmp_path, device="cpu")
    assert sorted(set(trained.history["epoch"])) == [1, 3, 5]
    assert trained.member_epochs == [3, 5]
    assert trained.history["layer"][:10] == list(range(1, 11))
    last = trained.members[-1].captured.astype(np.float64)
    assert trained.history["mean_entropy"][-10:] == last.mean(axis=0).tolist()
    assert trained.history["std_entropy"][-10:] == last.std(axis=0).tolist()


def test_a_checkpoint_carries_its_config(tmp_path, digits, tiny_config):
    config = tiny_config(epochs=1)
    train(config, digits, tmp_path, device="cpu")
    assert load_checkpoint(tmp_path / "checkpoint.pt")["config"] == config.as_dict()


def test_a_checkpoint_of_other_settings_is_not_taken_up(tmp_path, digits, tiny_config):
    train(tiny_config(epochs=1), digits, tmp_path, device="cpu")
    with pytest.raises(CacheError, match="learning_rate"):
        train(tiny_config(epochs=1, learning_rate=1e-3), digits, tmp_path, device="cpu")


def test_a_damaged_checkpoint_is_named(tmp_path, digits, tiny_config):
    (tmp_path / "checkpoint.pt").write_bytes(b"PK\x03\x04 not a checkpoint")
    with pytest.raises(CacheError, match=r"checkpoint\.pt"):
        train(tiny_config(), digits, tmp_path, device="cpu")


def test_a_full_disk_is_named_and_keeps_the_last_checkpoint(tmp_path, digits, tiny_config, monkeypatch):
    train(tiny_config(epochs=1), digits, tmp_path, device="cpu")
    before = (tmp_path / "checkpoint.pt").read_bytes()
    for error in (RuntimeError("[enforce fail] unexpected pos 576 vs 534"), OSError(28, "No space left on device")):

        def full(*_arguments, error=error):
            raise error

        monkeypatch.setattr(torch, "save", full)
        with pytest.raises(CacheError, match=r"checkpoint.pt: cannot be written .*make room"):
            save_checkpoint(tmp_path / "checkpoint.pt", tiny_config(), {})
    assert (tmp_path / "checkpoint.pt").read_bytes() == before


def test_a_checkpoint_that_lacks_a_part_is_named(tmp_path):
    torch.save({"format": "routecal-checkpoint-2", "config": {}}, tmp_path / "checkpoint.pt")
    with pytest.raises(CacheError, match="not a training checkpoint"):
        load_checkpoint(tmp_path / "checkpoint.pt")


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def unsupported(*_arguments):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(CacheError, match="no locks"), claimed(tmp_path / "run"):
        pass


def test_a_run_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "runs").write_text("a file in the way")
    with pytest.raises(CacheError, match="--runs"), claimed(tmp_path / "runs" / "one"):
        pass


def test_a_device_that_is_none_is_refused():
    assert pick_device("cpu") == torch.device("cpu")
    for name in ("gpu", "", "cuda:99"):
        with pytest.raises(InvalidInput, match="--device"):
            pick_device(name)


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path):
    with claimed(tmp_path), pytest.raises(CacheError, match="another process"), claimed(tmp_path):
        pass
    with claimed(tmp_path):
        pass


def test_label_smoothing_enters_the_loss_as_written(tiny_config):
    config = tiny_config(variant="baseline", label_smoothing=0.1)
    model = build_model(config, 10, 1).eval()
    images, labels = torch.randn(4, 1, 16, 16), torch.tensor([0, 1, 2, 3])
    log_probs = torch.log_softmax(model(images), dim=1)
    picked = log_probs[torch.arange(4), labels]
    expected = -(0.9 * picked + 0.1 * log_probs.mean(dim=1)).mean()
    torch.testing.assert_close(loss_of(model, images, labels, config), expected)


def test_drloc_adds_its_weighted_loss(tiny_config):
    model = build_model(tiny_config(variant="drloc"), 10, 1).eval()
    images, labels = torch.randn(4, 1, 16, 16), torch.tensor([0, 1, 2, 3])
    losses = []
    for weight in (0.0, 1.0, 2.0):
        torch.manual_seed(0)  # the same random pairs
        losses.append(loss_of(model, images, labels, tiny_config(variant="drloc", drloc_weight=weight)).item())
    assert losses[1] > losses[0]
    assert losses[2] - losses[0] == pytest.approx(2 * (losses[1] - losses[0]), rel=1e-4)


def test_query_rate_moves_only_the_queries_faster(tmp_path, digits, tiny_config):
    slow = Trainer(tiny_config(), digits, tmp_path, torch.device("cpu"))
    fast = Trainer(tiny_config(query_learning_rate=0.05), digits, tmp_path, torch.device("cpu"))
    for trainer in (slow, fast):
        trainer.train_epoch(lambda _fraction, _text: None)
    assert fast.model.blocks.queries.abs().mean() > 5 * slow.model.blocks.queries.abs().mean()


def test_epoch_samples_set_the_length_of_an_epoch(tmp_path, digits, tiny_config):
    assert Trainer(tiny_config(epoch_samples=64), digits, tmp_path, torch.device("cpu")).steps_per_epoch == 2
    assert Trainer(tiny_config(), digits, tmp_path, torch.device("cpu")).steps_per_epoch == 3


def test_other_images_than_the_configs_are_refused(tmp_path, digits, tiny_config):
    with pytest.raises(InvalidInput, match="cifar10"):
        train(tiny_config(dataset="cifar10"), digits, tmp_path)


def test_diverging_training_stops_with_the_epoch(tmp_path, digits, tiny_config):
    with pytest.raises(CacheError, match="lower learning_rate"):
        train(tiny_config(learning_rate=1e30), digits, tmp_path, device="cpu")


def test_derived_seeds_differ_by_every_part():
    seeds = {derived_seed(seed, epoch, purpose) for seed in range(4) for epoch in range(4) for purpose in range(2)}
    assert len(seeds) == 32
