"""The images of a platform, built on deploy."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ecr as ecr
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildMachine, BuildStage, StageInputs
from stacks.constructs.delivery.organization import OrganizationInputs, organization_inputs
from stacks.constructs.delivery.pipeline import Delivery
from stacks.constructs.delivery.registry import (
    additions_permissions,
    base_permissions,
    registry_permissions,
    repository,
)
from stacks.foundation import Foundation
from trainway.spec.deployment.creation import IMAGE, IMAGE_ADDITIONS, IMAGE_ON_BASE, TRANSFORMER_ENGINE
from trainway.spec.deployment.stage_times import stage_times
from trainway.spec.handoff import BuiltImage
from trainway.spec.handoff_names import DEFAULT_IMAGE, image_parameter_name, image_stack_name
from trainway.spec.image.image_build import packages_date
from trainway.spec.loader import load_versions


class ImageStack(cdk.Stack):
    """The pipeline that builds an image on its base, and the image's digest; nothing else waits for them.

    The base is a stage of its own. In a closed network there is no such stage: `delivery/supply.sh` brings the base in.
    A further image has its repository in this stack: it goes with the image, and not before the cluster releases it.
    """

    def __init__(self, scope: Construct, *, foundation: Foundation, image: str = DEFAULT_IMAGE) -> None:
        platform, registry = foundation.platform.of_image(image), foundation.registry
        name = image_stack_name(platform.name, image)
        what = "training image" if image == DEFAULT_IMAGE else f"image {image}"
        super().__init__(scope, name, env=foundation.env, description=f"Trainway {platform.name}: {what}")
        self._platform, self._foundation, self._settings = platform, foundation, registry.images[image]
        self._of = None if image == DEFAULT_IMAGE else image
        training = registry.training
        if self._of:
            training = repository(self, "Repository", name=self._settings.repository, keep=platform.image.keep)
        if platform.image.uri is not None:
            # Nothing is built, and launchers find the image where they find one that was.
            self._say_which(BuiltImage(uri=platform.image.uri, pinned=platform.image.uri))
            return
        organization = organization_inputs(self, platform, self._settings.repository, training.repository_arn)
        build, closed = self._build(training, organization), platform.network.is_closed
        added = self._additions()
        before = [] if closed else [[self._base()], *([[added]] if added else [])]
        delivery = Delivery(
            self,
            "Delivery",
            name=name,
            bundle=foundation.bundles.images[image],
            bucket=foundation.storage.bucket,
            steps=[*before, [build]],
            # `trainway image rebuild --again` sets it: a tag never moves, so a second image has another one.
            variables={"IMAGE_AGAIN": "no"},
            of=self._of,
        )
        self._say_what_was_built(training, organization.signer, delivery.stage_done[build.name])

    def _build(self, training: ecr.Repository, organization: OrganizationInputs) -> BuildStage:
        platform, settings = self._platform, self._settings
        return BuildStage(
            self,
            "Build",
            platform=platform.name,
            name="image",
            of=self._of,
            inputs=StageInputs(
                {
                    "IMAGE_REPOSITORY": training.repository_uri,
                    "IMAGE_TAG": settings.tag,
                    **settings.image,
                    **organization.environment,
                }
            ),
            permissions=[
                *registry_permissions([training.repository_arn], push=True),
                *registry_permissions([self._foundation.registry.base], push=False),
                *organization.permissions,
                settings.keep_bills,
            ],
            times=stage_times(IMAGE_ON_BASE),
            machine=self._machine("BUILD_GENERAL1_MEDIUM"),
        )

    def _machine(self, compute_type: str) -> BuildMachine:
        """Return a machine of the CodeBuild compute type that can build images."""
        return BuildMachine(compute_type, docker=True, network=self._foundation.network.build_network())

    def _base(self) -> BuildStage:
        settings = self._settings
        extra = [TRANSFORMER_ENGINE] if "transformer-engine" in self._platform.image.add else []
        return BuildStage(
            self,
            "Base",
            platform=self._platform.name,
            name="base",
            of=self._of,
            inputs=StageInputs({**settings.base, **settings.base_source}),
            permissions=[
                *registry_permissions([self._foundation.registry.base], push=True),
                *base_permissions(self._platform.image),
                settings.keep_bills,
            ],
            times=stage_times(IMAGE, *extra),
            machine=self._machine("BUILD_GENERAL1_LARGE"),
        )

    def _additions(self) -> BuildStage | None:
        """Return the stage that builds what the platform adds to the base, or None if there is no such stage.

        In a closed network `delivery/supply.sh` brings the additions in, as it does the base.
        """
        settings = self._settings
        if settings.additions is None or self._platform.network.is_closed:
            return None
        return BuildStage(
            self,
            "Additions",
            platform=self._platform.name,
            name="additions",
            of=self._of,
            inputs=StageInputs(settings.additions),
            permissions=[
                *registry_permissions([self._foundation.registry.base], push=True),
                *additions_permissions(self._platform.image),
                settings.keep_bills,
            ],
            times=stage_times(IMAGE_ADDITIONS),
            machine=self._machine("BUILD_GENERAL1_LARGE"),
        )

    def _say_what_was_built(self, training: ecr.Repository, signer: str | None, done: cdk.CfnWaitCondition) -> None:
        """Write the digest that the build reported into the parameter that launchers read.

        A condition's Data is an object with what each signal passed, by its UniqueId: the fourth part between quotes.
        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html (read 2026-11-21)
        """
        digest = cdk.Fn.select(3, cdk.Fn.split('"', cdk.Token.as_string(done.attr_data)))
        built = BuiltImage(
            uri=training.repository_uri_for_tag(self._settings.tag),
            pinned=f"{training.repository_uri}@{digest}",
            bill=self._settings.bill,
            packages=packages_date(self._platform, load_versions()),
            signer=signer,
        )
        parameter = self._say_which(built)
        # The registry's schema calls Data an object; what the page above shows, and Fn::Split takes, is its text.
        parameter.cfn_options.metadata = {"cfn-lint": {"config": {"ignore_checks": ["E1022"]}}}

    def _say_which(self, image: BuiltImage) -> ssm.CfnParameter:
        """Return the parameter with the image that jobs use."""
        return ssm.CfnParameter(
            self,
            "Image",
            name=image_parameter_name(self._platform.name, self._platform.image_name),
            type="String",
            description="The training image that was built last, by its digest",
            # Not to_json_string, which would escape the quote that Fn::Split is given; nothing here needs escaping.
            value=image.model_dump_json(exclude=None if image.signer else {"signer"}),
        )
