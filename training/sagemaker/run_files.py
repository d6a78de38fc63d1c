"""The directory of a run on a host, and its copy in the bucket.

SageMaker can copy a directory, too. It then fills the directory again as root when it starts the job again, so that
the job cannot write to it.
"""

import contextlib
import threading
from pathlib import Path

from training.hosts import location_files

SECONDS_BETWEEN_UPLOADS = 60.0


class RunFiles:
    """The files of a run's directory. Files that this host changes are copied to the bucket."""

    def __init__(self, directory: Path, location: str) -> None:
        self._directory, self._location = directory, location
        self._known: dict[str, tuple[int, int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._upload_now_and_then, daemon=True)

    def restore(self) -> None:
        """Copy what earlier attempts left in the bucket to the directory. Begin to upload.

        Raises:
            UserError: the bucket cannot be read.
        """
        for name in location_files.list_files(self._location):
            # The launcher's own files, and what SageMaker writes, are beside the run's.
            if name.startswith(("job/", "output/")) or name == "job.yaml" or name.endswith("/"):
                continue
            path = self._directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            location_files.download(location_files.join(self._location, name), path)
            self._known[name] = _state(path)
        self._thread.start()

    def close(self) -> None:
        """Upload what has changed since the last time, and end.

        Raises:
            UserError: the bucket cannot be written to.
        """
        self._ended.set()
        self._thread.join()
        self.upload()

    def upload(self) -> None:
        """Copy the files that changed to the bucket, the oldest first.

        A program that writes a marker when its checkpoint is complete finds both in that order in the bucket.

        Raises:
            UserError: the bucket cannot be written to.
        """
        changed = []
        for path in self._directory.rglob("*"):
            name = path.relative_to(self._directory).as_posix()
            # The job may delete files meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not path.is_symlink() and self._known.get(name) != (state := _state(path)):
                    changed.append((state[1], name, state))
        for _, name, state in sorted(changed):
            with contextlib.suppress(FileNotFoundError):
                location_files.upload(self._directory / name, location_files.join(self._location, name))
                self._known[name] = state

    def _upload_now_and_then(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_UPLOADS):
            try:
                self.upload()
            except Exception as error:
                # The job continues, and the next time may succeed. The last time reports its failure.
                print(f"the run's files cannot be uploaded now: {error}", flush=True)


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
