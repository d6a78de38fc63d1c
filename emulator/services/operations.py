"""Services that operate the platform: parameters, topics, alarms, logs, queues, and builds."""

from __future__ import annotations

import json
from typing import Any

from emulator.registry.schema import Properties
from emulator.services.service import Aws, Service, ignoring, only_changed, without


def create_parameter(aws: Aws, model: Properties) -> Properties:
    # A parameter's tags are an object in the template and a list in the API.
    tags = [{"Key": key, "Value": value} for key, value in model.get("Tags", {}).items()]
    aws.call("ssm", "put_parameter", without(model, "Tags"), Tags=tags)
    return {"Arn": f"arn:aws:ssm:{aws.region}:{aws.account}:parameter/{model['Name'].lstrip('/')}"}


def update_parameter(aws: Aws, _old: Properties, new: Properties) -> Properties:
    aws.call("ssm", "put_parameter", without(new, "Tags"), Overwrite=True)
    return {}


def delete_parameter(aws: Aws, model: Properties) -> None:
    with ignoring("ParameterNotFound"):
        aws.client("ssm").delete_parameter(Name=model["Name"])


def create_topic(aws: Aws, model: Properties) -> Properties:
    sns = aws.client("sns")
    arn = sns.create_topic(Name=model["TopicName"], Tags=model.get("Tags", []))["TopicArn"]
    for subscription in model.get("Subscription", []):
        sns.subscribe(TopicArn=arn, **subscription)
    _set_topic_attributes(aws, arn, model)
    return {"TopicArn": arn}


def update_topic(aws: Aws, old: Properties, new: Properties) -> Properties:
    only_changed(old, new, ("DisplayName", "KmsMasterKeyId", "Tags"))
    _set_topic_attributes(aws, new["TopicArn"], new)
    return {}


def _set_topic_attributes(aws: Aws, arn: str, model: Properties) -> None:
    for name in ("DisplayName", "KmsMasterKeyId"):
        if name in model:
            aws.client("sns").set_topic_attributes(TopicArn=arn, AttributeName=name, AttributeValue=model[name])


def delete_topic(aws: Aws, model: Properties) -> None:
    with ignoring("NotFound"):
        aws.client("sns").delete_topic(TopicArn=model["TopicArn"])


def put_topic_policy(aws: Aws, model: Properties) -> Properties:
    for arn in model["Topics"]:
        aws.client("sns").set_topic_attributes(
            TopicArn=arn, AttributeName="Policy", AttributeValue=json.dumps(model["PolicyDocument"])
        )
    return {}


def leave_topic_policy(_aws: Aws, _model: Properties) -> None:
    """Do nothing, because SNS has no call that removes a policy. The policy goes with the topic."""


def create_subscription(aws: Aws, model: Properties) -> Properties:
    arguments = {key: model[key] for key in ("TopicArn", "Protocol", "Endpoint") if key in model}
    return {"Arn": aws.client("sns").subscribe(**arguments, ReturnSubscriptionArn=True)["SubscriptionArn"]}


def delete_subscription(aws: Aws, model: Properties) -> None:
    with ignoring("NotFound"):
        aws.client("sns").unsubscribe(SubscriptionArn=model["Arn"])


def put_alarm(aws: Aws, model: Properties) -> Properties:
    aws.call("cloudwatch", "put_metric_alarm", model)
    return {"Arn": f"arn:aws:cloudwatch:{aws.region}:{aws.account}:alarm:{model['AlarmName']}"}


def delete_alarm(aws: Aws, model: Properties) -> None:
    aws.client("cloudwatch").delete_alarms(AlarmNames=[model["AlarmName"]])


def put_dashboard(aws: Aws, model: Properties) -> Properties:
    aws.call("cloudwatch", "put_dashboard", model)
    return {}


def delete_dashboard(aws: Aws, model: Properties) -> None:
    with ignoring("ResourceNotFound"):
        aws.client("cloudwatch").delete_dashboards(DashboardNames=[model["DashboardName"]])


def create_log_group(aws: Aws, model: Properties) -> Properties:
    name = model["LogGroupName"]
    aws.call("logs", "create_log_group", model)
    _set_retention(aws, model)
    return {"Arn": f"arn:aws:logs:{aws.region}:{aws.account}:log-group:{name}:*"}


def find_log_group(aws: Aws, identifier: Properties) -> Properties | None:
    """Return the log group unchanged, because an import does not change it."""
    name = identifier["LogGroupName"]
    groups = aws.client("logs").describe_log_groups(logGroupNamePrefix=name)["logGroups"]
    there = name in {each["logGroupName"] for each in groups}
    return {"Arn": f"arn:aws:logs:{aws.region}:{aws.account}:log-group:{name}:*"} if there else None


def update_log_group(aws: Aws, old: Properties, new: Properties) -> Properties:
    only_changed(old, new, ("RetentionInDays", "Tags"))
    _set_retention(aws, new)
    return {}


def _set_retention(aws: Aws, model: Properties) -> None:
    logs, name = aws.client("logs"), model["LogGroupName"]
    if "RetentionInDays" in model:
        logs.put_retention_policy(logGroupName=name, retentionInDays=model["RetentionInDays"])
    else:
        logs.delete_retention_policy(logGroupName=name)


def delete_log_group(aws: Aws, model: Properties) -> None:
    with ignoring("ResourceNotFoundException"):
        aws.client("logs").delete_log_group(logGroupName=model["LogGroupName"])


def create_queue(aws: Aws, model: Properties) -> Properties:
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName=model["QueueName"], Attributes=_queue_attributes(model))["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    return {"QueueUrl": url, "Arn": attributes["QueueArn"]}


def update_queue(aws: Aws, _old: Properties, new: Properties) -> Properties:
    attributes = without(_queue_attributes(new), "FifoQueue")
    if attributes:
        aws.client("sqs").set_queue_attributes(QueueUrl=new["QueueUrl"], Attributes=attributes)
    return {}


def _queue_attributes(model: Properties) -> dict[str, str]:
    def text(value: Any) -> str:
        return json.dumps(value) if isinstance(value, dict | bool) else str(value)

    return {key: text(value) for key, value in without(model, "QueueName", "QueueUrl", "Arn", "Tags").items()}


def delete_queue(aws: Aws, model: Properties) -> None:
    with ignoring("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"):
        aws.client("sqs").delete_queue(QueueUrl=model["QueueUrl"])


def create_project(aws: Aws, model: Properties) -> Properties:
    project = aws.call("codebuild", "create_project", model)["project"]
    # The schema's identifier is the name. The API has no other.
    return {"Id": project["name"], "Arn": project["arn"]}


def update_project(aws: Aws, _old: Properties, new: Properties) -> Properties:
    # moto has no UpdateProject. A project has no state here, so creating it again is equivalent.
    delete_project(aws, new)
    return create_project(aws, new)


def delete_project(aws: Aws, model: Properties) -> None:
    with ignoring("ResourceNotFoundException"):
        aws.client("codebuild").delete_project(name=model["Name"])


def create_schedule(aws: Aws, model: Properties) -> Properties:
    return {"Arn": aws.call("scheduler", "create_schedule", model)["ScheduleArn"]}


def update_schedule(aws: Aws, old: Properties, new: Properties) -> Properties:
    only_changed(old, new, tuple(set(new) - {"Name", "GroupName"}))
    aws.call("scheduler", "update_schedule", new)
    return {}


def delete_schedule(aws: Aws, model: Properties) -> None:
    with ignoring("ResourceNotFoundException"):
        aws.client("scheduler").delete_schedule(Name=model["Name"])


SERVICES = {
    "AWS::CloudWatch::Alarm": Service(put_alarm, delete_alarm, lambda aws, _old, new: put_alarm(aws, new)),
    "AWS::CloudWatch::Dashboard": Service(
        put_dashboard, delete_dashboard, lambda aws, _old, new: put_dashboard(aws, new)
    ),
    "AWS::CodeBuild::Project": Service(create_project, delete_project, update_project),
    "AWS::Logs::LogGroup": Service(create_log_group, delete_log_group, update_log_group, find_log_group),
    "AWS::Scheduler::Schedule": Service(create_schedule, delete_schedule, update_schedule),
    "AWS::SNS::Subscription": Service(create_subscription, delete_subscription),
    "AWS::SNS::Topic": Service(create_topic, delete_topic, update_topic),
    "AWS::SNS::TopicPolicy": Service(
        put_topic_policy, leave_topic_policy, lambda aws, _old, new: put_topic_policy(aws, new)
    ),
    "AWS::SQS::Queue": Service(create_queue, delete_queue, update_queue),
    "AWS::SSM::Parameter": Service(create_parameter, delete_parameter, update_parameter),
}
