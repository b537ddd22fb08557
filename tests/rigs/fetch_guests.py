"""Fetches what the tests' guests boot, as far as it is not in the cache: kernels, roots of the telephony, a database.

As a program it does so beforehand, while other tests run: it takes the network and the disk, and little of the CPUs.
"""

from typing import get_args

from stealtime.hosts.database.image import database_image
from stealtime.lab.image.kernel import find_kernel
from stealtime.studies.telephony.appliance.root import Role, obtain_root
from stealtime.studies.telephony.place.guest import KERNEL


def fetch_telephony() -> None:
    """Fetch what a server and its replicas boot."""
    find_kernel(KERNEL)
    for role in get_args(Role):
        obtain_root(role)


if __name__ == "__main__":
    fetch_telephony()
    database_image()
