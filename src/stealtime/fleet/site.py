"""The scheduler and the workers of a site, as the controller sees them."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import dask
from distributed import Client
from distributed.security import Security
from pydantic import ValidationError

import stealtime
from stealtime.fleet import worker
from stealtime.fleet.order import FORMAT, HostFacts
from stealtime.fleet.transport import Credentials, check_address, check_credentials
from stealtime.vocabulary.errors import StealtimeError, UsageError

CONNECT_WITHIN_S = 10
ANSWER_WITHIN_S = 20.0
_START_HINT = (
    "start one on each host: dask worker ADDRESS --nthreads 1 --no-nanny --name HOST --preload stealtime.fleet.preload"
)
_SAME_HINT = f"install stealtime[fleet]=={stealtime.__version__} there, and start it anew"
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Site:
    """Where the scheduler is, and what proves who we are."""

    address: str
    credentials: Credentials


@dataclass(frozen=True)
class Found:
    """A worker that was asked: what it says, or why it gets nothing to do."""

    name: str
    address: str
    facts: HostFacts | None = None
    refused: str | None = None
    hint: str | None = None


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[Client]:
    """Have a connection to the scheduler until the context is left.

    Raises:
        UsageError: The address or the credentials cannot be used.
        StealtimeError: Nobody answers there, or it is no scheduler that we trust.
    """
    check_address(site.address)
    security = _security(site)
    # What goes wrong is told in a sentence of ours; Dask logs it with its traceback besides.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = await Client(
            site.address, asynchronous=True, security=security, timeout=CONNECT_WITHIN_S, name="stealtime"
        )
    except (OSError, TimeoutError) as error:
        raise StealtimeError(
            f"no scheduler answers at {site.address}: {_innermost(error)}",
            hint="see that it runs, and that both sides have certificates of the same authority",
        ) from None
    try:
        yield client
    finally:
        await client.close()


def _security(site: Site) -> Security | None:
    if not site.address.startswith("tls://"):
        return None
    check_credentials(site.credentials)
    given = site.credentials
    if given.ca is None and not dask.config.get("distributed.comm.tls.ca-file", None):
        raise UsageError(
            f"{site.address} asks for certificates, and none are given",
            hint="give --tls-ca-file, --tls-cert and --tls-key, or set them in Dask's configuration",
        )
    files: dict[str, Any] = {}
    if given.ca is not None:
        files = {
            "tls_ca_file": str(given.ca),
            "tls_client_cert": str(given.certificate),
            "tls_client_key": str(given.key),
        }
    return Security(require_encryption=True, **files)


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error) or type(error).__name__


async def _identity(client: Client) -> dict[str, Any]:
    if client.scheduler is None:
        raise ConnectionError("the connection is closed")
    answer: dict[str, Any] = await client.scheduler.identity(n_workers=-1)
    return answer


async def _versions(client: Client) -> Any:
    answer: Any = client.get_versions()
    return await answer


async def asked(answer: Coroutine[Any, Any, _Answer], address: str) -> _Answer:
    """Wait for a scheduler's answer.

    Raises:
        StealtimeError: It does not come.
    """
    try:
        return await asyncio.wait_for(answer, ANSWER_WITHIN_S)
    except (OSError, TimeoutError) as error:
        raise StealtimeError(
            f"the scheduler at {address} went away: {_innermost(error)}",
            hint="what has arrived is kept; start the scheduler and the workers, and go on with --resume",
        ) from None


async def worker_addresses(client: Client, address: str) -> dict[str, str]:
    """Give the addresses of all workers by their names.

    Raises:
        StealtimeError: The scheduler does not answer.
    """
    identity = await asked(_identity(client), address)
    return {str(one["name"]): where for where, one in identity["workers"].items()}


async def find_hosts(client: Client, address: str) -> list[Found]:
    """Ask all workers who they are, in the order of their names.

    Raises:
        StealtimeError: There is none, or the scheduler does not know our functions.
    """
    addresses = await worker_addresses(client, address)
    if not addresses:
        raise StealtimeError(f"the scheduler at {address} has no workers", hint=_START_HINT)
    versions = await asked(_versions(client), address)
    engine = versions["client"]["packages"]["distributed"]
    others = {
        where: one["packages"]["distributed"]
        for where, one in versions["workers"].items()
        if one["packages"]["distributed"] != engine
    }
    names = sorted(addresses)
    found = await asyncio.gather(*(_find(client, name, addresses[name], others, engine) for name in names))
    return _without_twins(found)


async def _find(client: Client, name: str, address: str, others: dict[str, str], engine: str) -> Found:
    if address in others:
        words = f"its worker is of distributed {others[address]}, and the controller's is {engine}"
        return Found(name, address, refused=words, hint=_SAME_HINT)
    future = client.submit(worker.describe, workers=[address], allow_other_workers=False, pure=False)
    try:
        facts = HostFacts.model_validate(await asyncio.wait_for(future, ANSWER_WITHIN_S))
    except TimeoutError:
        await future.cancel()
        return Found(name, address, refused=f"its worker did not answer within {ANSWER_WITHIN_S:.0f} s")
    except ValidationError:
        return Found(name, address, refused="its stealtime answers in another form", hint=_SAME_HINT)
    except Exception as error:
        # Whatever a worker meets comes back as itself.
        if "deserialization" in str(error):
            raise StealtimeError(
                f"the scheduler has no stealtime {stealtime.__version__}",
                hint="Dask needs the same packages everywhere: install stealtime[fleet] where the scheduler runs",
            ) from None
        return Found(name, address, refused=f"its worker cannot run stealtime: {error}", hint=_SAME_HINT)
    return _judged(name, address, facts)


def _judged(name: str, address: str, facts: HostFacts) -> Found:
    if (facts.format, facts.stealtime_version) != (FORMAT, stealtime.__version__):
        words = worker.other_version(facts.stealtime_version, stealtime.__version__)
        return Found(name, address, refused=words, hint=_SAME_HINT)
    if facts.threads != 1:
        words = f"its worker has {facts.threads} threads: two measurements at a time would measure each other"
        return Found(name, address, refused=words, hint="start it with --nthreads 1")
    return Found(name, address, facts)


def _without_twins(found: list[Found]) -> list[Found]:
    """Leave one worker of each machine: two would measure each other, and count as two hosts."""
    first: dict[str, str] = {}
    kept = []
    for one in found:
        twin = first.setdefault(one.facts.identity, one.name) if one.facts is not None else one.name
        if twin != one.name:
            words = f"it is the same machine as {twin}"
            hint = "run one worker a host; STEALTIME_HOST tells hosts apart that share a machine-id"
            kept.append(Found(one.name, one.address, refused=words, hint=hint))
        else:
            kept.append(one)
    return kept
