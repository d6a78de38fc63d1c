# The packages of a platform file's image.packages, on the base of the training image. delivery/additions.sh builds it in a
# context of its own, with additions/apt.txt and additions/pip.txt of the deploy. It is no stage of container/Dockerfile,
# because a change of these packages builds nothing of that.
# hadolint global ignore=DL3006,DL3008 # the base is an argument, by its digest; versions of packages are what the file says
ARG TRAINWAY_BASE

FROM ${TRAINWAY_BASE}
ARG AWS_OFI_NCCL_VERSION
ARG BASE_IMAGE
ARG CUDA_VERSION
ARG HYPERPOD_ELASTIC_AGENT_VERSION
ARG LAYOUT
ARG LIBFABRIC_VERSION
ARG NCCL_VERSION
ARG FLASH_ATTENTION_VERSION
ARG NEMO_VERSION
ARG PYTORCH_VERSION
ARG SOURCE_DATE_EPOCH
ARG TRANSFORMER_ENGINE_VERSION
ARG VARIANT
COPY additions/ /opt/trainway/requirements/additions/
SHELL ["/bin/bash", "/opt/trainway/build/layer.sh"]
RUN --mount=type=secret,id=authorities \
    --mount=type=cache,target=/var/cache/apt,sharing=locked \
    --mount=type=cache,target=/var/lib/apt,sharing=locked \
    if [ -s /opt/trainway/requirements/additions/apt.txt ]; then \
        rm -f /etc/apt/apt.conf.d/docker-clean \
        && apt-get update \
        && xargs apt-get install --yes --no-install-recommends < /opt/trainway/requirements/additions/apt.txt; \
    fi
# The list has every package that the image lacks, with its checksum, so pip asks for nothing else. What is published as sources
# is built by what the image has.
RUN --mount=type=secret,id=authorities --mount=type=secret,id=pip \
    --mount=type=cache,target=/root/.cache/pip \
    if [ -s /opt/trainway/requirements/additions/pip.txt ]; then \
        pip install --no-build-isolation --check-build-dependencies --no-deps --require-hashes \
            --requirement /opt/trainway/requirements/additions/pip.txt; \
    fi
RUN --mount=type=bind,source=verify_image.py,target=/tmp/verify_image.py \
    python /tmp/verify_image.py "${VARIANT}" --added --layout "${LAYOUT}" \
    --libfabric "${LIBFABRIC_VERSION}" --aws-ofi-nccl "${AWS_OFI_NCCL_VERSION}" \
    --cuda "${CUDA_VERSION}" --nccl "${NCCL_VERSION}" --pytorch "${PYTORCH_VERSION}" \
    --transformer-engine "${TRANSFORMER_ENGINE_VERSION}" --nemo "${NEMO_VERSION}" \
    --flash-attention "${FLASH_ATTENTION_VERSION}" \
    --hyperpod-elastic-agent "${HYPERPOD_ELASTIC_AGENT_VERSION}"
# In place of the list of the base.
RUN --mount=type=bind,source=bill_of_materials.py,target=/tmp/bill_of_materials.py \
    python /tmp/bill_of_materials.py /opt/trainway/sbom.spdx.json "${BASE_IMAGE}"
