"""`cosim plugins` and the registry behind it: listed without importing, broken packages named and harmless."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from cosim.analytic import registry as analytic
from cosim.cli import main
from cosim.config import ConfigErrors
from cosim.plugins import GROUPS, PluginError, find, names, plugins, registry
from cosim.policy import registry as policies
from cosim.trace import adapters

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Put a package with entry points on the path: (name, group, entries, module text)."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(distribution: str, group: str, entries: dict[str, str], module: str = "") -> None:
        folder = tmp_path / f"{distribution}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        lines = "\n".join(f"{name} = {value}" for name, value in entries.items())
        (folder / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")
        (tmp_path / f"{distribution}.py").write_text(module)
        monkeypatch.delitem(sys.modules, distribution, raising=False)
        importlib.invalidate_caches()

    return write


def test_an_installed_component_is_listed_and_loaded_on_use(install: Install) -> None:
    install(
        "othermodels", "cosim.analytic_models", {"mine": "othermodels:Mine"}, "class Mine:\n    '''My figures.'''\n"
    )
    assert "mine" in names("analytic_models")
    assert "othermodels" not in sys.modules
    result = CliRunner().invoke(main, ["plugins", "list", "analytic_models"])
    assert "  mine                 othermodels:Mine  [othermodels 1.2]\n" in result.stdout
    assert "othermodels" not in sys.modules
    shown = CliRunner().invoke(main, ["plugins", "show", "mine"])
    assert shown.stdout.startswith("mine: analytic_models, othermodels:Mine of othermodels 1.2\n\nMy figures.\n")


def test_a_broken_package_harms_only_its_own_use(install: Install) -> None:
    install("brokenone", "cosim.analytic_models", {"broken": "brokenone:X"}, "raise OSError('no library')")
    install("missingone", "cosim.policies", {"missing": "missingone:Nothing"})
    assert CliRunner().invoke(main, ["--help"]).exit_code == 0
    assert CliRunner().invoke(main, ["plugins", "list"]).exit_code == 0
    result = CliRunner().invoke(main, ["plugins", "show", "broken"])
    assert result.exit_code == 2
    assert result.stderr == (
        "the plug-in 'broken' (analytic_models) of brokenone cannot be loaded from 'brokenone:X': OSError: no library\n"
    )
    with pytest.raises(PluginError, match="module 'missingone' has no attribute 'Nothing'"):
        find("policies", "missing").load()


def test_a_name_claimed_twice_is_an_error(install: Install) -> None:
    install("rival", "cosim.analytic_models", {"comoe": "rival:Mine"})
    with pytest.raises(PluginError, match=r"claimed by cosim-moe .* and by rival"):
        plugins("analytic_models")
    assert CliRunner().invoke(main, ["plugins", "list"]).exit_code == 2


def test_unknown_names() -> None:
    with pytest.raises(ConfigErrors, match=r"analytic_models: expected one of .*got 'comoo'; did you mean 'comoe'\?"):
        find("analytic_models", "comoo")
    with pytest.raises(KeyError, match="no kind 'policy'"):
        plugins("policy")
    result = CliRunner().invoke(main, ["plugins", "show", "mseh"])
    assert result.exit_code == 2
    assert "did you mean 'mesh'?" in result.stderr


@pytest.mark.parametrize("kind", GROUPS)
def test_every_component_of_ours_loads_and_shows(kind: str) -> None:
    for plugin in plugins(kind):
        assert plugin.load() is not None
        result = CliRunner().invoke(main, ["plugins", "show", plugin.name, "--kind", kind])
        assert result.exit_code == 0
        assert len(result.stdout.splitlines()) > 1


def test_rooms_and_registry_name_the_same_components() -> None:
    assert analytic.model_names() == names("analytic_models")
    assert sorted(policies.policy_names()) == names("policies")
    # a policy says the name under which it is listed
    assert all(plugin.load().name == plugin.name for plugin in plugins("policies"))
    assert set(adapters.names()) == set(names("trace_adapters"))
    assert GROUPS["trace_adapters"] == adapters.GROUP


def test_own_components_come_from_one_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, install: Install) -> None:
    """The checkout's pyproject.toml where there is one, else the metadata; both say the same."""
    expected = {kind: [(one.name, one.value) for one in plugins(kind)] for kind in GROUPS}
    assert {"mesh", "static", "vllm_npz", "hcrmap"} <= {name for found in expected.values() for name, _ in found}
    project = tmp_path / "pyproject.toml"
    monkeypatch.setattr(registry, "_PYPROJECT", project)
    registry._checkout.cache_clear()
    try:
        # another project's file, beside a package that lies in a folder of its own
        project.write_text("[project]\nname = 'mine'\n[project.entry-points.'cosim.policies']\nx = 'x:X'\n")
        assert registry._checkout() is None
        registry._checkout.cache_clear()
        # a checkout's own file counts, whatever an older install of it says
        project.write_text(
            "[project]\nname = 'cosim-moe'\n"
            "[project.entry-points.'cosim.policies']\nnew = 'cosim.policy.static:Static'\n"
        )
        install("cosim-moe", "cosim.policies", {"new": "cosim.elsewhere:Moved", "gone": "cosim.elsewhere:Gone"})
        assert [(one.name, one.value) for one in plugins("policies")] == [("new", "cosim.policy.static:Static")]
    finally:
        registry._checkout.cache_clear()
