"""The modules of the conformance suite, by their names, against the server that nginx guards."""

import pytest

from tokens.oauth.tests.openid.plans import PLANS
from tokens.oauth.tests.openid.registry import Module, Plan, Trial, each
from tokens.oauth.tests.openid.site import Site


@pytest.mark.only_sqlite
@pytest.mark.parametrize(
    ("plan", "module"), [pytest.param(plan, one, id=f"{plan.title}: {one.name}") for plan, one in each(PLANS)]
)
def test_a_module_of_the_suite(site: Site, plan: Plan, module: Module) -> None:
    """It passes; it warns where the page gives the reason, and nowhere else."""
    trial = Trial(site, plan.mode, plan.signed)
    try:
        module.run(trial)
    finally:
        site.close_clients()
    assert bool(trial.warnings) == bool(module.warning), trial.warnings
