"""Tell errors of a broken device from mistakes of a program."""

# What CUDA calls these errors, as PyTorch and NCCL print them. cudaErrorECCUncorrectable (214) and
# cudaErrorNvlinkUncorrectable (220) are of the device:
# https://docs.rs/crseo-sys/latest/aarch64-unknown-linux-gnu/constant.cudaError_cudaErrorECCUncorrectable.html and
# https://docs.rs/crseo-sys/latest/aarch64-unknown-linux-gnu/constant.cudaError_cudaErrorNvlinkUncorrectable.html, the
# comments of CUDA's header (read 2026-11-29). An illegal address, a failed launch, or a device-side assertion can come
# from the program. The numbers of Xid errors are in the log of the kernel, which a rank cannot read.
_OF_DEVICE = ("uncorrectable ECC error", "uncorrectable NVLink error")


def device_fault(error: BaseException) -> str | None:
    """Return what the device is said to have, or None for an error that a sound device can have, too."""
    said = str(error)
    return next((f"a rank ended with an {fault}" for fault in _OF_DEVICE if fault in said), None)
