"""A walk through MLflow and Prefect as they look to somebody with a browser; infra/walkthrough.md has its pictures."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import chromium, page_for, picture
from tests.browser.story import FIRST_REASON, POLICY, TARGETS, Story, tell
from tests.e2e.stack import RunningStack, running_stack, stack_folder, tags_of, until

pytestmark = pytest.mark.e2e

INSTRUMENT = "safety"


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    with stack_folder() as folder, running_stack(folder) as running:
        yield running


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("story")


@pytest.fixture(scope="module")
def story(stack: RunningStack, data: Path) -> Story:
    return tell(stack, data)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def mlflow(stack: RunningStack, browser: Browser) -> Iterator[Page]:
    # Its assistant would open by itself, and cover a quarter of the page.
    stored = {"mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": "true", "mlflow.assistant.panelOpen_v1": "false"}
    with page_for(browser, stored=stored, credentials=stack.mlflow_auth) as page:
        yield page


@pytest.fixture
def prefect(stack: RunningStack, browser: Browser) -> Iterator[Page]:
    password = base64.b64encode(":".join(stack.prefect_auth).encode()).decode()
    with page_for(browser, stored={"prefect-password": password}) as page:  # where its login form leaves it
        yield page


def address(stack: RunningStack, path: str) -> str:
    """An address of MLflow's pages, in the mode that has runs and charts."""
    return f"{stack.mlflow}/#{path}{'&' if '?' in path else '?'}workflowType=machine_learning"


def experiment(runs: list[dict[str, Any]]) -> str:
    return str(runs[0]["info"]["experiment_id"])


def test_two_calibrations_side_by_side(stack: RunningStack, story: Story, mlflow: Page, tmp_path: Path) -> None:
    runs = stack.mlflow_runs("assay/calibration")
    ids = [run["info"]["run_id"] for run in runs]
    runs_and_experiments = f"runs={quote(json.dumps(ids))}&experiments={quote(json.dumps([experiment(runs)]))}"
    mlflow.goto(address(stack, f"/compare-runs?{runs_and_experiments}"))
    mlflow.get_by_text("Visualizations").click()  # folded, so that the figures are in sight
    row = mlflow.locator("tr", has_text="golden.n_traces")
    expect(row).to_contain_text(str(story.calibrations[0]["result"]["golden"]["n_traces"]))
    expect(row).to_contain_text(str(story.calibrations[1]["result"]["golden"]["n_traces"]))
    mlflow.get_by_label("Parameters - Show diff only").click()
    expect(mlflow.get_by_text("spec.detection_floor")).to_have_count(0)  # the same in both
    for record in story.calibrations:
        youden_j = record["result"]["composite"]["youden_j"]
        expect(mlflow.get_by_text(f"{youden_j:.3f}", exact=True).first).to_be_visible()
    mlflow.get_by_text("composite.youden_j", exact=True).scroll_into_view_if_needed()
    picture(mlflow, "comparison", tmp_path)


def test_five_releases_on_one_line(stack: RunningStack, story: Story, mlflow: Page, tmp_path: Path) -> None:
    (timeline,) = [run for run in stack.mlflow_runs("assay/measurement") if tags_of(run)["kind"] == "timeline"]
    run = f"/experiments/{timeline['info']['experiment_id']}/runs/{timeline['info']['run_id']}"
    mlflow.goto(address(stack, f"{run}/model-metrics"))
    plots = mlflow.locator(".js-plotly-plot")
    expect(plots.nth(2)).to_be_visible()
    drawn = mlflow.evaluate("[...document.querySelectorAll('.js-plotly-plot')].map(plot => plot.data[0].y)")
    rates = [record["result"]["composite"]["prevalence"] for record in story.measurements]
    for told in ([rate["value"] for rate in rates], [rate["interval"]["high"] for rate in rates]):
        assert pytest.approx(told, abs=1e-9) in drawn
    picture(mlflow, "timeline", tmp_path)
    mlflow.goto(address(stack, run))
    for step, target in enumerate(TARGETS):  # which release each step is
        expect(mlflow.locator("tr", has_text=target).first).to_contain_text(str(step))


def test_the_registry_says_who_measures_now_and_why(
    stack: RunningStack, story: Story, mlflow: Page, tmp_path: Path
) -> None:
    mlflow.goto(address(stack, f"/models/{INSTRUMENT}"))
    champion, challenger = (
        mlflow.locator("[role=row], tr", has_text=alias).last for alias in ("@ champion", "@ challenger")
    )
    expect(champion).to_contain_text(story.calibrations[0]["id"][:3])
    expect(challenger).to_contain_text(story.calibrations[1]["id"][:3])
    picture(mlflow, "registry", tmp_path)
    mlflow.goto(address(stack, f"/models/{INSTRUMENT}/versions/1"))
    expect(mlflow.get_by_text(FIRST_REASON)).to_have_count(1)
    youden_j = story.calibrations[0]["result"]["composite"]["youden_j"]
    expect(mlflow.get_by_text(re.compile(rf"J {youden_j:.3f}"))).to_be_visible()
    mlflow.get_by_text(FIRST_REASON).scroll_into_view_if_needed()
    picture(mlflow, "version", tmp_path)


def test_a_release_that_an_event_had_measured(
    stack: RunningStack, story: Story, prefect: Page, data: Path, tmp_path: Path
) -> None:
    """The last of the five again, by the worker: its record is the same, and Prefect shows it."""
    scores = str(data / f"{TARGETS[-1]}.parquet")
    stack.assay(
        "event", "model-released", "--target", TARGETS[-1], "--scores", scores, "--instrument", INSTRUMENT, "--policy",
        POLICY,
    )  # fmt: skip
    (run,) = until(lambda: [item for item in stack.flow_runs("measure") if item["end_time"]], 300, "measured release")
    assert run["state_type"] == "COMPLETED"
    wanted = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
    answer = httpx.post(f"{stack.api}/artifacts/filter", json=wanted, auth=stack.prefect_auth, timeout=60)
    (measured,) = [item for item in answer.raise_for_status().json() if item["key"] == "measurement"]
    assert story.measurements[-1]["id"] in measured["data"]
    pages = f"{stack.api.removesuffix('/api')}/v2"
    prefect.goto(f"{pages}/runs/flow-run/{run['id']}")
    expect(prefect.get_by_text(f"measure {TARGETS[-1]}").first).to_be_visible()
    expect(prefect.get_by_text("Completed").first).to_be_visible()
    prefect.wait_for_timeout(3_000)  # its graph unfolds
    picture(prefect, "flow-run", tmp_path)
    prefect.goto(f"{pages}/artifacts/artifact/{measured['id']}")
    rate = story.measurements[-1]["result"]["composite"]["prevalence"]["value"]
    expect(prefect.get_by_text(f"{100 * rate:.1f}%").first).to_be_visible()
    picture(prefect, "artifact", tmp_path)
