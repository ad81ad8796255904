from __future__ import annotations

import base64
import dataclasses
import gzip
import io
import itertools
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import synthetic_run
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.report import html as report_html
from cosim.report.contents import STAGES, STALLS, RunContents
from cosim.report.figures import distribution, figure, floorplan
from cosim.report.svg import Axis, ticks


@pytest.fixture(scope="session")
def page(whole: RunContents) -> str:
    return report_html.render(whole)


@pytest.fixture(scope="session")
def tree(page: str) -> ET.Element:
    return parse(page)


def parse(page: str) -> ET.Element:
    """The page as XML: it is written to be both HTML and well-formed XML."""
    assert page.startswith("<!DOCTYPE html>\n")
    return ET.fromstring(page.removeprefix("<!DOCTYPE html>\n"))


def data_of(link: ET.Element) -> pd.DataFrame:
    head, body = link.attrib["href"].split(";base64,")
    raw = base64.b64decode(body)
    return pd.read_csv(io.BytesIO(gzip.decompress(raw) if "gzip" in head else raw), keep_default_na=True)


def figures(tree: ET.Element) -> dict[str, ET.Element]:
    return {f.attrib["id"].removeprefix("fig-"): f for f in tree.iter("figure")}


def figure_data(tree: ET.Element, name: str) -> pd.DataFrame:
    (link,) = [a for a in figures(tree)[name].iter("a") if a.get("class") == "data"]
    return data_of(link)


def classes(element: ET.Element) -> list[str]:
    return element.attrib.get("class", "").split()


def test_page_asks_nothing_of_the_outside(page: str, tree: ET.Element) -> None:
    assert not re.search(r"https?://|//[a-z0-9.-]+\.[a-z]{2,}/", page)
    assert not re.search(r"<script|<iframe|<object|<embed|<img|@import|url\(|\bon\w+=|\bsrc=", page)
    ids = {e.attrib["id"] for e in tree.iter() if "id" in e.attrib}
    for element in tree.iter():
        href = element.get("href")
        if href is not None:
            assert href.startswith("data:") or href[1:] in ids, href[:80]


def test_html_parser_sees_balanced_tags(page: str) -> None:
    void = {"meta", "link", "br", "hr", "img", "input"}
    stack: list[str] = []

    class Balance(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in void:
                stack.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            if tag not in void:
                assert stack.pop() == tag

    Balance().feed(page)
    assert stack == []


def test_ids_are_unique_and_drawings_are_named(tree: ET.Element) -> None:
    ids = [e.attrib["id"] for e in tree.iter() if "id" in e.attrib]
    assert len(ids) == len(set(ids))
    for svg in tree.iter("svg"):
        if svg.get("aria-hidden") == "true":
            continue
        assert svg.attrib["role"] == "img"
        named = svg.attrib["aria-labelledby"].split()
        assert set(named) <= set(ids)
        title, description = (svg.find("title"), svg.find("desc"))
        assert title is not None
        assert title.text
        assert description is not None
        assert description.text
    for table in tree.iter("table"):
        assert table.find("caption") is not None
        assert all(th.get("scope") in ("col", "row") for th in table.iter("th"))


def test_every_figure_has_title_unit_caption_and_data(tree: ET.Element, whole: RunContents) -> None:
    found = figures(tree)
    assert set(found) == {
        "claims", "stages", "latency-distribution", "rung-errors", "stage-errors", "links-package", "chiplets", "banks",
    }  # fmt: skip
    for name, drawn in found.items():
        heading = drawn.find("h3")
        assert heading is not None, name
        assert (heading.text or "").strip(), name
        unit = heading.find("span")
        assert unit is not None
        assert re.fullmatch(r"\[.+\]", unit.text or ""), name
        caption = drawn.find("figcaption")
        assert caption is not None
        assert len((caption.text or "").strip()) > 30, name
        assert len(figure_data(tree, name)) > 0
        link = next(a for a in drawn.iter("a"))
        assert link.attrib["download"].startswith("quickstart-")
        assert list(drawn.iter("svg")), name


def test_axes_carry_units(tree: ET.Element) -> None:
    for name in ("stages", "latency-distribution", "rung-errors", "stage-errors"):
        for panel in figures(tree)[name].iter("svg"):
            if panel.get("aria-hidden") == "true":
                continue
            labels = [t.text or "" for t in panel.iter("text") if "axis-label" in classes(t)]
            assert labels
            assert all(re.search(r"\[.+\]$", label) for label in labels), (name, labels)


def test_same_contents_give_the_same_bytes(whole: RunContents, page: str) -> None:
    shuffled = dataclasses.replace(
        whole,
        links=whole.links.sample(frac=1, random_state=3),
        layers=whole.layers.sample(frac=1, random_state=4),
        metrics=whole.metrics.sample(frac=1, random_state=5),
    )
    assert report_html.render(shuffled) == page


def test_stage_numbers_equal_the_layers(tree: ET.Element, whole: RunContents) -> None:
    drawn = figure_data(tree, "stages").set_index(["policy", "rung", "stage"])["mean_µs"]
    sums: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for row in whole.layers.to_dict("records"):
        for stage in (*STAGES, "total"):
            sums[row["policy"], row["rung"], stage].append(row[f"{stage}_fs"])
    for key, values in sums.items():
        assert drawn[key] == pytest.approx(sum(values) / len(values) / 1e9, rel=1e-12)
    assert len(drawn) == len(sums)


def test_stage_bars_are_as_long_as_their_numbers(tree: ET.Element) -> None:
    drawn = figure_data(tree, "stages")
    stages = [s for s in STAGES if s in set(drawn["stage"])]
    widths, values = [], []
    panels = [svg for svg in figures(tree)["stages"].iter("svg") if svg.get("role") == "img"]
    for policy, svg in zip(["static", "hot_replication", "popularity_prefetch"], panels, strict=True):
        bars = [r for r in svg.iter("rect") if "bar" in classes(r)]
        rows = [
            row
            for rung in ("analytic", "link", "link+command", "flit+rate", "flit")
            for stage in stages
            for row in drawn[(drawn["policy"] == policy) & (drawn["rung"] == rung) & (drawn["stage"] == stage)].to_dict(
                "records"
            )
            if row["mean_µs"] > 0
        ]
        assert [classes(bar)[1].removeprefix("s-") for bar in bars] == [row["stage"] for row in rows]
        widths += [float(bar.attrib["width"]) for bar in bars]
        values += [row["mean_µs"] for row in rows]
    per_unit = sum(widths) / sum(values)
    assert np.allclose(widths, np.array(values) * per_unit, atol=0.011)


def test_link_numbers_equal_the_frame(tree: ET.Element, whole: RunContents) -> None:
    drawn = figure_data(tree, "links-package")
    busy: dict[tuple[str, int], int] = defaultdict(int)
    seen: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    stalls: dict[tuple[str, int, str], int] = defaultdict(int)
    for row in whole.links[whole.links["rung"] == "flit"].to_dict("records"):
        key = (row["policy"], row["link"])
        busy[key] += row["busy_cycles"]
        seen[key][row["seed"]] = row["observed_cycles"]
        for cause in STALLS:
            stalls[(*key, cause)] += row[f"stall_{cause}_cycles"]
    assert len(drawn) == len(busy)
    for row in drawn.to_dict("records"):
        key = (row["policy"], row["link"])
        observed = sum(seen[key].values())
        assert row["utilisation"] == pytest.approx(busy[key] / observed, rel=1e-12)
        for cause in STALLS:
            assert row[f"stall_{cause}"] == pytest.approx(stalls[(*key, cause)] / observed, rel=1e-12)


def test_link_arrows_have_the_colour_of_their_load(tree: ET.Element) -> None:
    drawn = figure_data(tree, "links-package")
    panels = [svg for svg in figures(tree)["links-package"].iter("svg") if svg.get("role") == "img"]
    arrows = list(panels[0].iter("polygon"))
    rows = drawn[drawn["policy"] == "static"].to_dict("records")
    assert len(arrows) == len(rows) == 48
    top = figure.heat_top(list(drawn["utilisation"]))
    for arrow, row in zip(arrows, rows, strict=True):
        assert f"h{min(9, int(row['utilisation'] / top * 10))}" in classes(arrow)
        hint = arrow.find("title")
        assert hint is not None
        assert f"{row['src_router']}→{row['dst_router']}" in (hint.text or "")
        points = [tuple(map(float, p.split(","))) for p in arrow.attrib["points"].split()]
        tip, tail = points[3], points[0]
        # the arrow's tip points the way the flits go
        assert np.sign(round(tip[0] - tail[0], 0)) == row["dst_x"] - row["src_x"] or row["dst_x"] == row["src_x"]
        assert np.sign(round(tip[1] - tail[1], 0)) == row["dst_y"] - row["src_y"] or row["dst_y"] == row["src_y"]


def test_bank_and_chiplet_numbers_equal_the_frames(tree: ET.Element, whole: RunContents) -> None:
    keys = ["policy", "endpoint", "channel", "pseudo_channel", "bank_group", "bank"]
    banks = whole.banks[whole.banks["rung"] == "flit"].groupby(keys).sum(numeric_only=True)
    for row in figure_data(tree, "banks").to_dict("records"):
        expected = banks.loc[tuple(row[key] for key in keys)]
        assert row["open"] == pytest.approx(expected["busy_cycles"] / expected["observed_cycles"], rel=1e-12)
        channel = banks.loc[tuple(row[key] for key in keys[:4])]["bytes"].sum()
        assert row["share"] == pytest.approx(expected["bytes"] / channel, rel=1e-12)
        accesses = expected["row_hits"] + expected["row_misses"] + expected["row_conflicts"]
        assert row["row_conflict"] == pytest.approx(expected["row_conflicts"] / accesses, rel=1e-12)
        assert row["bytes"] == expected["bytes"]
    chiplets = whole.chiplets[whole.chiplets["rung"] == "flit"].groupby(["policy", "endpoint"]).sum(numeric_only=True)
    drawn = figure_data(tree, "chiplets")
    assert len(drawn) == len(chiplets) == 3 * 20
    for row in drawn.to_dict("records"):
        expected = chiplets.loc[(row["policy"], row["endpoint"])]
        assert row["utilisation"] == pytest.approx(expected["busy_fs"] / expected["observed_fs"], rel=1e-12)
        assert row["tokens"] == expected["tokens"]


def test_distribution_is_the_sorted_sample(tree: ET.Element, whole: RunContents) -> None:
    drawn = figure_data(tree, "latency-distribution")
    for (policy, rung), part in drawn.groupby(["policy", "rung"]):
        rows = whole.layers[(whole.layers["policy"] == policy) & (whole.layers["rung"] == rung)]
        sample = sorted(rows["total_fs"])
        assert list(part["layer_latency_µs"]) == pytest.approx([v / 1e9 for v in sample], rel=1e-12)
        assert list(part["share_of_layers"]) == pytest.approx([(i + 1) / len(sample) for i in range(len(sample))])


def test_long_samples_are_thinned_and_said_to_be() -> None:
    run = synthetic_run.contents(policies=("static",), rungs=("link",), seeds=(1, 2), batches=30, layers=10)
    made = distribution.draw(run)
    assert made is not None
    assert len(made.data) == distribution.MOST_POINTS
    assert made.data["share_of_layers"].iloc[-1] == 1
    assert "Drawn at 240 of 600 points; all are in layers.parquet." in made.caption


def test_rung_errors_equal_the_metrics(tree: ET.Element, whole: RunContents) -> None:
    for row in figure_data(tree, "rung-errors").to_dict("records"):
        metric = whole.metric(row["policy"], row["rung"], "error_against_flit")
        assert metric is not None
        assert row["error_percent"] == pytest.approx(metric["value"] * 100, rel=1e-12)


def test_stage_errors_equal_the_metrics_of_the_lowest_rung(tree: ET.Element, whole: RunContents) -> None:
    drawn = figure_data(tree, "stage-errors")
    assert set(drawn["rung"]) == {"analytic"}
    for row in drawn.to_dict("records"):
        name = f"stage_{row['stage'].replace(' ', '_')}_error_against_flit"
        metric = whole.metric(row["policy"], row["rung"], name)
        assert metric is not None
        assert row["difference_µs"] == pytest.approx(metric["value"] / 1000, rel=1e-12)


def test_claims_show_words_marks_numbers_and_reasons(tree: ET.Element, whole: RunContents) -> None:
    items = list(figures(tree)["claims"].iter("li"))
    assert len(items) == len(whole.claims)
    for item, claim in zip(items, whole.claims, strict=True):
        text = " ".join("".join(item.itertext()).split())
        assert claim["verdict"].replace("_", " ") in text
        assert claim["reason"] in text
        assert claim["statement"] in text
        assert f"v-{claim['verdict']}" in classes(item)
    drawn = figure_data(tree, "claims")
    expected = [(c["id"], rung, e["value"]) for c in whole.claims for rung, e in c["rungs"].items()]
    assert list(zip(drawn["id"], drawn["rung"], drawn["value"], strict=True)) == expected


def test_metrics_download_is_the_metrics_frame(tree: ET.Element, whole: RunContents) -> None:
    (link,) = [a for a in tree.iter("a") if a.get("download") == "quickstart-metrics.csv"]
    pd.testing.assert_frame_equal(data_of(link), whole.metrics, check_dtype=False)


def test_tables_hold_the_metrics(tree: ET.Element, whole: RunContents) -> None:
    table = next(t for t in tree.iter("table") if t.findtext("caption") == "Layer latency")
    rows = [[(c.text or "") for c in tr] for tr in table.iter("tr")][1:]
    assert len(rows) == 15
    for policy, rung, mean, *_ in rows:
        metric = whole.metric(policy, rung, "layer_latency_mean")
        assert metric is not None
        assert mean.startswith(f"{metric['value'] / 1000:.2f} [")


def test_text_is_escaped(small: RunContents) -> None:
    evil = "<script>alert('x')</script> & \"quotes\""
    info = dataclasses.replace(small.info, description=evil, warnings=(evil,), name=evil)
    claim = {**synthetic_run.CLAIMS[0], "statement": evil, "reason": evil}
    page = report_html.render(dataclasses.replace(small, info=info, claims=[claim]), incomplete=evil)
    assert "<script" not in page
    tree = parse(page)
    assert tree.findtext(".//h1") == evil


def test_incomplete_run_says_so_on_top(small: RunContents, page: str) -> None:
    assert "This run is incomplete" not in page
    shown = report_html.render(small, incomplete="It was interrupted by the user (Ctrl-C).")
    assert "This run is incomplete.</b> It was interrupted by the user (Ctrl-C)." in shown


def test_oracle_profile_is_flagged(small: RunContents) -> None:
    info = dataclasses.replace(small.info, profile="oracle")
    assert '<li class="flag"><b>profile</b> oracle</li>' in report_html.render(dataclasses.replace(small, info=info))


def test_bare_run_gives_a_page_without_empty_figures() -> None:
    run = synthetic_run.contents(
        policies=("static",), rungs=("analytic",), seeds=(1,), batches=1, layers=1, with_claims=False
    )
    run = dataclasses.replace(run, chiplets=pd.DataFrame())
    tree = parse(report_html.render(run))
    assert set(figures(tree)) == {"stages", "latency-distribution"}
    text = "".join(tree.itertext())
    assert "No claims were put to this run" in text
    assert "No rung of this run records links, chiplets or banks." in text


def test_page_stays_small_and_says_what_it_leaves_out() -> None:
    many = tuple(f"policy{i}" for i in range(4))
    run = synthetic_run.contents(policies=many, rungs=("flit",), seeds=(1,), batches=40, layers=8, side=24)
    run = dataclasses.replace(run, banks=pd.DataFrame(), experts=pd.DataFrame())
    page = report_html.render(run)
    assert len(page.encode()) < report_html.MOST_BYTES
    tree = parse(page)
    caption = "".join(figures(tree)["links-package"].find("figcaption").itertext())  # type: ignore[union-attr]
    drawn = [svg for svg in figures(tree)["links-package"].iter("svg") if svg.get("role") == "img"]
    assert len(drawn) == figure.MOST_SHAPES // (4 * 24 * 23)
    assert "Not drawn, to keep the page light: policy2, policy3" in caption
    data = figure_data(tree, "links-package")
    assert set(data["policy"]) == set(many)
    # without hover texts the arrows of one colour share one path, and every link is still drawn
    assert sum(p.attrib["d"].count("M") for p in drawn[0].iter("path")) == 4 * 24 * 23


def test_wrap_around_links_leave_and_enter_at_the_edges() -> None:
    run = synthetic_run.contents(policies=("static",), rungs=("flit",), seeds=(1,), batches=1, layers=1, wrap=True)
    (made,) = floorplan.draw_links(run)
    svg = ET.fromstring(made.panels[0].svg)
    assert len(list(svg.iter("polygon"))) == 48 + 2 * 16
    assert not list(svg.iter("path"))


def test_links_without_a_place_are_counted(whole: RunContents) -> None:
    links = whole.links.copy()
    links.loc[links["link"] == 5, ["src_x", "src_y"]] = -1
    (made,) = floorplan.draw_links(dataclasses.replace(whole, links=links))
    assert "1 links have no place on the plan" in made.caption
    assert len(made.data) == 3 * 48


def test_overlapping_stages_are_pointed_out(small: RunContents) -> None:
    layers = small.layers.assign(total_fs=(small.layers["total_fs"] * 4) // 5)
    page = report_html.render(dataclasses.replace(small, layers=layers))
    assert "The black tick is the same number: the stages" in page
    assert 'class="total-tick"' in page


def colours(block: str) -> dict[str, tuple[float, float, float]]:
    found = {}
    for name, value in re.findall(r"--([\w-]+): #([0-9a-f]{6});", block):
        red, green, blue = (int(value[i : i + 2], 16) / 255 for i in (0, 2, 4))
        found[name] = (red, green, blue)
    return found


def contrast(a: tuple[float, float, float], b: tuple[float, float, float]) -> float:
    """Contrast ratio of two sRGB colours, WCAG 2.1."""

    def luminance(colour: tuple[float, float, float]) -> float:
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def themes(page: str) -> dict[str, dict[str, tuple[float, float, float]]]:
    roots = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    assert len(roots) == 3
    light = colours(roots[0])
    return {"light": light, "dark": light | colours(roots[1]), "print": light | colours(roots[2])}


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_text_contrast_meets_wcag_aa(page: str, theme: str) -> None:
    c = themes(page)[theme]
    pairs = [("ink", "bg"), ("ink", "panel"), ("soft", "bg"), ("soft", "panel"), ("accent", "bg")]
    pairs += [(v, f"{v}-bg") for v in ("confirmed", "refuted", "inconclusive", "not-testable")]
    pairs += [("ink", "inconclusive-bg"), ("ink", "refuted-bg")]
    for text, ground in pairs:
        assert contrast(c[text], c[ground]) >= 4.5, (text, ground, contrast(c[text], c[ground]))
    # numbers on tiles are bold 14 px: 3:1
    for step in range(10):
        text = "bg" if step >= 6 else "ink"
        assert contrast(c[text], c[f"h{step}"]) >= 3, step
    # curves and bars against the panel: 3:1 except where a label names them
    for name in ("p0", "p1", "p2", "p3", "under", "over", "confirmed", "refuted", "inconclusive"):
        assert contrast(c[name], c["panel"]) >= 3, name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_heat_steps_are_ordered_in_lightness(page: str, theme: str) -> None:
    """A map must read the same without colour vision and on grey paper."""
    c = themes(page)[theme]
    against = [contrast(c[f"h{i}"], c["panel"]) for i in range(10)]
    assert all(a < b for a, b in itertools.pairwise(against))


@settings(deadline=None, max_examples=200)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 9))
def test_ticks_are_round_and_inside(low: float, span: float, most: int) -> None:
    high = low + span
    marks = ticks(low, high, most)
    assert len(marks) <= most + 1
    assert all(low - 1e-6 * span <= m <= high + 1e-6 * span for m in marks)
    gaps = {round(b - a, 9) for a, b in itertools.pairwise(marks)}
    assert len(gaps) <= 2  # equal but for rounding
    axis = Axis(low, high, 10, 110)
    assert axis(low) == 10
    assert axis(high) == pytest.approx(110)
