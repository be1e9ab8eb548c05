"""Put a report where it was asked for: all of it or nothing, and never over something by accident."""

from __future__ import annotations

import glob
import os
import stat
from pathlib import Path

from analyzer.errors import KvpmError


def refuse_existing(path: Path, *, force: bool) -> None:
    """Say before any work is done what `write_report` would say after it."""
    if not force and path.is_file():
        raise _exists(path)


def write_report(path: Path, content: str | bytes, *, force: bool) -> None:
    """Write `content` to `path`, text as UTF-8, aside first and then renamed.

    An existing file is left alone unless `force` is set.
    """
    # A link is followed: replacing the link itself would leave the old report where it points.
    target = path.resolve()
    data = content.encode("utf-8", errors="replace") if isinstance(content, str) else content
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    except OSError as error:
        raise _cannot_write(path, error) from error
    if mode is not None and stat.S_ISDIR(mode):
        raise KvpmError(f"{path} is a folder", hint=f"name a file in it, such as {path / 'report.html'}")
    try:
        if mode is not None and not stat.S_ISREG(mode):
            # A pipe or a device (/dev/stdout) is written to, not replaced.
            target.write_bytes(data)
            return
        if mode is not None and not force:
            raise _exists(path)
        _write_aside(target, data, force=force)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise _cannot_write(path, error) from error


def remove_unfinished(target: Path) -> None:
    """Remove what processes that were killed amid writing `target` left beside it."""
    for left in target.parent.glob(f".{glob.escape(target.name[:100])}.*.part"):
        if left.name.split(".")[-2].isdecimal():
            left.unlink(missing_ok=True)


def _write_aside(target: Path, data: bytes, *, force: bool) -> None:
    aside = target.with_name(f".{target.name[:100]}.{os.getpid()}.part")
    try:
        # Not tempfile: its files are readable by the owner only, and a report is made to be passed on.
        with aside.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        if force:
            aside.replace(target)
            return
        try:
            # Unlike a rename, a link never replaces a file that appeared in the meantime.
            os.link(aside, target)
        except FileExistsError:
            raise
        except OSError:
            # Some file systems have no hard links; then the check before must do.
            aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)


def _exists(path: Path) -> KvpmError:
    return KvpmError(f"{path} exists already", hint="add --force to replace it, or name another file")


def _cannot_write(path: Path, error: OSError) -> KvpmError:
    parent = path.parent
    if not parent.is_dir():
        return KvpmError(f"there is no folder {parent}", hint=f"mkdir -p {parent}")
    return KvpmError(f"cannot write {path}: {error.strerror}", hint="name a file in a folder you can write to")
