"""The probe audit step by step in front of a room: a clicker adds the controls, and the address keeps the place."""

from __future__ import annotations

from playwright.sync_api import expect

# Ours: on a busy machine Streamlit shows a button of the same name in its header.
STOP = '[class*="st-key-"][class*="stop"] button'
QUICK = "backbone=toy&variant=Full-AR&width=4&epochs=25&inits=2"


def test_a_clicker_walks_through_the_steps(visit, idle):
    page = visit(f"probes?{QUICK}&present=1&steps=true")
    expect(page.get_by_text("in the naive comparison")).to_be_visible()
    expect(page.get_by_text("at the same capacity")).not_to_be_visible()
    page.keyboard.press("PageDown")
    expect(page.get_by_text("at the same capacity")).to_be_visible()
    expect(page.get_by_text("networks perform as well with shuffled routing")).not_to_be_visible()
    idle(page)
    assert "step=2" in page.url
    again = visit(page.url)
    expect(again.get_by_text("at the same capacity")).to_be_visible()
    expect(again.get_by_text("networks perform as well with shuffled routing")).not_to_be_visible()
    page.keyboard.press("PageDown")
    expect(page.get_by_text("networks perform as well with shuffled routing")).to_be_visible()
    page.keyboard.press("PageUp")
    expect(page.get_by_text("networks perform as well with shuffled routing")).not_to_be_visible()


def test_stop_is_heard_at_once_and_the_work_can_be_begun_again(visit, idle, server):
    page = visit("gap")
    page.goto(f"{server.address}/probes?backbone=toy&variant=Full-AR&width=64&epochs=800&inits=10")
    expect(page.get_by_test_id("stProgress")).to_be_visible()
    page.locator(STOP).click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
    expect(page.get_by_test_id("stProgress")).to_have_count(0)
    idle(page)
    page.get_by_role("button", name="Train the probes").click()
    expect(page.get_by_test_id("stProgress")).to_be_visible()
    page.locator(STOP).click()
    expect(page.get_by_text("Stopped.")).to_be_visible()
