"""The training image, built on deploy."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.delivery.build_stage import BuildStage
from stacks.constructs.delivery.pipeline import Delivery
from stacks.constructs.delivery.registry import registry_permissions
from stacks.foundation import Foundation
from trainway.spec.derived.creation import IMAGE, IMAGE_ON_BASE, TRANSFORMER_ENGINE, durations
from trainway.spec.handoff import BuiltImage, image_parameter_name


class ImageStack(cdk.Stack):
    """The pipeline that builds the training image on its base, and the image's digest; nothing else waits for them.

    The base is a stage of its own. In a closed network there is no such stage: `delivery/supply.sh` brings the base in.
    """

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        platform, registry = foundation.platform, foundation.registry
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: training image")
        closed = platform.network.is_closed
        build = BuildStage(
            self,
            "Build",
            platform=platform.name,
            name="image",
            environment={
                "IMAGE_REPOSITORY": registry.training.repository_uri,
                "IMAGE_TAG": registry.tag,
                **registry.base_environment,
            },
            permissions=[
                *registry_permissions([registry.training.repository_arn], push=True),
                *registry_permissions([registry.base], push=False),
            ],
            usual_minutes=durations()[IMAGE_ON_BASE].minutes,
            # It copies files. For the first image on a base it also copies the base's layers, of several gigabytes.
            timeout=cdk.Duration.minutes(30),
            compute_type="BUILD_GENERAL1_MEDIUM",
            docker=True,
            network=foundation.network.build_network(),
        )
        delivery = Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-image",
            bundle=foundation.bundles.image,
            bucket=foundation.storage.bucket,
            steps=[*([] if closed else [[self._base(foundation)]]), [build]],
            # `trainway image rebuild --again` sets it: a tag never moves, so a second image has another one.
            variables={"IMAGE_AGAIN": "no"},
        )
        self._say_what_was_built(foundation, delivery.stage_done[build.name])

    def _base(self, foundation: Foundation) -> BuildStage:
        registry, usual = foundation.registry, durations()[IMAGE].minutes
        if "transformer-engine" in foundation.platform.image.add:
            usual += durations()[TRANSFORMER_ENGINE].minutes
        return BuildStage(
            self,
            "Base",
            platform=foundation.platform.name,
            name="base",
            environment=registry.base_environment,
            permissions=registry_permissions([registry.base], push=True),
            usual_minutes=usual,
            # Twice as long as usual.
            timeout=cdk.Duration.minutes(2 * usual),
            compute_type="BUILD_GENERAL1_LARGE",
            docker=True,
            network=foundation.network.build_network(),
        )

    def _say_what_was_built(self, foundation: Foundation, done: cdk.CfnWaitCondition) -> None:
        """Puts the digest that the build reported where launchers look for it.

        A condition's Data is an object with what each signal passed, by its UniqueId: the fourth part between quotes.
        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-waitcondition.html (read 2026-11-21)
        """
        registry = foundation.registry
        digest = cdk.Fn.select(3, cdk.Fn.split('"', cdk.Token.as_string(done.attr_data)))
        built = BuiltImage(uri=registry.image_uri, pinned=f"{registry.training.repository_uri}@{digest}")
        parameter = ssm.CfnParameter(
            self,
            "Image",
            name=image_parameter_name(foundation.platform.name),
            type="String",
            description="The training image that was built last, by its digest",
            # Not to_json_string, which would escape the quote that Fn::Split is given; nothing here needs escaping.
            value=built.model_dump_json(),
        )
        # The registry's schema calls Data an object; what the page above shows, and Fn::Split takes, is its text.
        parameter.cfn_options.metadata = {"cfn-lint": {"config": {"ignore_checks": ["E1022"]}}}
