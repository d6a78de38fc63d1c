"""The kinds of value that a platform file is made of, each with the reason and the remedy for a wrong one."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

from trainway.spec.facts.services import service_facts
from trainway.spec.values import Matches, wrong

Name = Annotated[
    str,
    Matches(
        r"(?=.{1,30}$)[a-z](-?[a-z0-9])*",
        "names become stack, cluster, repository, and Kubernetes names, which allow less than this",
        "use up to 30 lower-case letters, digits and single hyphens, beginning with a letter",
    ),
]

Region = Annotated[
    str,
    Matches(r"[a-z]{2}(-[a-z]+)+-\d", "it is not the form of an AWS Region's code", "write it as in us-west-2"),
]


def is_local_zone(zone: str) -> bool:
    """Return whether a zone ID is that of a Local Zone, which has the code of its city between."""
    return zone.count("-") > 1


ZoneId = Annotated[
    str,
    Matches(
        r"[a-z]+\d(-[a-z]{3}\d+)?-az\d+",
        "it is not a zone id; zone names such as us-west-2a mean different places in different accounts",
        "write the id, as in usw2-az2; `aws ec2 describe-availability-zones` lists both",
    ),
]

S3Uri = Annotated[
    str,
    Matches(
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html (read 2026-11-30)
        r"s3://(?=[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/|$))(?!\d+(\.\d+){3}(/|$))[a-z0-9-]+(\.[a-z0-9][a-z0-9-]*)*(/.*)?",
        "it is not an S3 location",
        "write it as in s3://bucket/prefix/",
    ),
]


# RFC 1918. ipaddress calls more than this private: loopback, link-local and the ranges for documentation.
PRIVATE_RANGES = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))


def _parse_range(value: Any) -> IPv4Network:
    try:
        network = IPv4Network(value, strict=False)
    except ValueError:
        raise wrong("it is not an IPv4 address range", "write it as in 10.0.0.0/16") from None
    if isinstance(value, str) and value != str(network):
        raise wrong("an address range begins at its first address", f"write {network}")
    return network


def _private_range(network: IPv4Network) -> IPv4Network:
    if not any(network.subnet_of(private) for private in PRIVATE_RANGES):
        raise wrong("it is not a private address range", f"choose one inside {' or '.join(map(str, PRIVATE_RANGES))}")
    low, high = service_facts().vpc.prefix_lengths
    if not low <= network.prefixlen <= high:
        raise wrong(f"a VPC's range is between /{low} and /{high}", "use a /16 unless addresses are scarce")
    return network


def _vpc_block(network: IPv4Network) -> IPv4Network:
    low, high = service_facts().vpc.prefix_lengths
    if not low <= network.prefixlen <= high:
        raise wrong(f"a block of a VPC is between /{low} and /{high}", "`trainway adopt` finds the blocks of the VPC")
    return network


# Any range of a network that exists: what it may be was AWS's to say.
Range = Annotated[IPv4Network, BeforeValidator(_parse_range)]
AddressRange = Annotated[IPv4Network, BeforeValidator(_parse_range), AfterValidator(_private_range)]
VpcBlock = Annotated[IPv4Network, BeforeValidator(_parse_range), AfterValidator(_vpc_block)]


def reachable_host(address: str) -> str:
    """Refuse an address of this machine, which is that of every other machine, too."""
    if (host := urlsplit(address).hostname) in ("localhost", "127.0.0.1", "0.0.0.0"):
        raise wrong(f"{host} is the machine that reads it, and not yours", "write a host that AWS reaches by its name")
    return address


def _throughput(value: int) -> int:
    known = service_facts().lustre.throughputs
    if value not in known:
        raise wrong("FSx for Lustre does not sell this throughput", f"choose one of {', '.join(map(str, known))}")
    return value


LustreThroughput = Annotated[int, AfterValidator(_throughput)]


def _home_throughput(value: int) -> int:
    known = service_facts().openzfs.throughputs
    if value not in known:
        raise wrong("FSx for OpenZFS does not sell this throughput", f"choose one of {', '.join(map(str, known))}")
    return value


HomeThroughput = Annotated[int, AfterValidator(_home_throughput)]

BucketName = Annotated[
    str,
    Matches(
        r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
        "it is not the name of a bucket",
        "use 3 to 63 lower-case letters, digits and hyphens",
    ),
]

DataPrefix = Annotated[
    str,
    Matches(
        r"(corpus|checkpoints|runs)(/[A-Za-z0-9][A-Za-z0-9._-]{0,127})+",
        "it is not a prefix below corpus, checkpoints, or runs",
        "write it without a slash at the end, as in checkpoints/llama",
    ),
]

AccountNumber = Annotated[
    str,
    Matches(r"\d{12}", "it is not the number of an AWS account", "write its 12 digits in quotes, as in '111122223333'"),
]

KmsKey = Annotated[
    str,
    Matches(
        # https://docs.aws.amazon.com/kms/latest/developerguide/concepts-key-id.html (read 2026-11-30)
        r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/(mrk-[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})",
        "it is not the ARN of a KMS key; a role cannot be let use an alias",
        "write it as in arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
    ),
]

# https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_CreateSecret.html (Name, read 2026-11-30). Names of
# secrets that a service manages also have an exclamation mark, for example rds!cluster-1.
SECRET_ARN = r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:\d{12}:secret:[A-Za-z0-9/_+=.@!-]+-[A-Za-z0-9]{6}"
Secret = Annotated[
    str,
    Matches(
        SECRET_ARN,
        "it is not the whole ARN of a secret, which ends in a hyphen and six characters",
        "write it as in arn:aws:secretsmanager:us-west-2:111122223333:secret:slurm-AbCdEf",
    ),
]


# An access entry takes the role with its path, and `sts get-caller-identity` shows a session without it: for a role of
# IAM Identity Center, AWSReservedSSO_… instead of aws-reserved/sso.amazonaws.com/us-west-2/AWSReservedSSO_….
# https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html
# https://masterpoint.io/blog/fix-iam-trust-policy-errors-with-aws-sso-regional-arn (both read 2026-11-22)
PRINT_YOUR_ROLE = (
    "aws iam get-role --query Role.Arn --output text --role-name "
    '"$(aws sts get-caller-identity --query Arn --output text | cut -d/ -f2)"'
)

# A name has at most 64 of these characters, and a path at most 512 printable ones: roleNameType, userNameType, and
# pathType of botocore's model of IAM (read 2026-11-29). `*` and `?` are left out: in a policy, an ARN with them is a
# pattern.
Principal = Annotated[
    str,
    Matches(
        r"arn:aws[a-z-]*:iam::\d{12}:(role|user)/(?!AWSReservedSSO_)(?=.{1,576}$)([!-)+->@-~]{1,511}/)?"
        r"[A-Za-z0-9_+=,.@-]{1,64}",
        "it is not the ARN of an IAM role or user",
        f"write it as in arn:aws:iam::111122223333:role/Admin; `{PRINT_YOUR_ROLE}` prints the ARN of the role that you "
        "have assumed",
    ),
]


# A colon and a TCP port.
PORT = r":([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d{2}|655[0-2]\d|6553[0-5])"

# What Debian's and Ubuntu's useradd and adduser take without being forced, of which the image's Linux is one; Slurm
# keeps names in lower case: https://manpages.debian.org/bookworm/passwd/useradd.8.en.html, CAVEATS (read 2026-11-21)
Login = Annotated[
    str,
    Matches(
        r"[a-z_][a-z0-9_-]{0,31}",
        "it is not a login name",
        "use up to 32 lower-case letters, digits, hyphens and underscores, beginning with a letter",
    ),
]


Email = Annotated[
    str,
    Matches(
        # Printable ASCII: characters that change the direction of a text would show another address.
        # Without quotes, a mailbox has none of the characters that RFC 5322 calls specials.
        r"[!#-'*+\-./-9=?A-Z^-~]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+",
        "it is not an e-mail address",
        "write one address, as in ml-oncall@example.com",
    ),
]
