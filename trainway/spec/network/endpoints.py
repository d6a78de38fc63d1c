"""AWS services that a platform's network reaches without leaving the VPC."""

from __future__ import annotations

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.kubernetes.addons import addons_in_cluster
from trainway.spec.kubernetes.charts import chart_names
from trainway.spec.kubernetes.system_pods import system_facts
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform

# The gateway endpoint is free and carries the data. All others are interfaces, with an address in each cluster subnet.
GATEWAY = "s3"


def interface_endpoints(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the services that get an interface endpoint, sorted by name.

    A closed network gets one for each service that its builds, nodes, EKS add-ons and charts call. An existing VPC
    keeps the endpoints it has: a service has one endpoint with its private name. If that VPC has a way out, none is
    added, because everything else in the VPC would use the new endpoints too.
    """
    facts, orchestrator, existing = service_facts().endpoints, platform.orchestrator, platform.network.existing
    if not platform.network.is_closed:
        return () if existing else tuple(sorted(facts.private))
    services = set(facts.closed)
    if orchestrator.is_kubernetes:
        services |= set(facts.closed_kubernetes)
    if orchestrator.is_hyperpod:
        services |= set(facts.closed_hyperpod)
    workloads = system_facts()
    services.update(*(workloads.addons[name].calls for name in addons_in_cluster(platform)))
    services.update(*(workloads.charts[name].calls for name in chart_names(platform, catalogue)))
    lustre = platform.storage.lustre
    if lustre and lustre.root_squash:
        services |= set(facts.closed_root_squash)
    slurm = platform.slurm_or_default
    reads_as_slurm = slurm.accounting_database or (slurm.directory and slurm.directory.reader)
    if platform.secrets or reads_as_slurm or platform.installed_run_ai:
        services |= set(facts.closed_slurm_secrets)
    if collector_of(platform) is Collector.AGENT:
        services |= set(facts.closed_slurm_metrics)
    return tuple(sorted(services - set(existing.endpoints if existing else ())))


def makes_gateway(platform: Platform) -> bool:
    """Return whether the deploy creates the gateway endpoint of S3. An existing VPC may already have one."""
    existing = platform.network.existing
    return existing is None or GATEWAY not in existing.endpoints
