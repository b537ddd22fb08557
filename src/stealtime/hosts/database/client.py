"""A program that commits numbered transactions, one after the other, and at the end looks for each of them.

``python -m stealtime.hosts.database.client ADDRESS`` runs until its standard input is closed, and prints what it has
seen as one JSON object (:class:`Seen`). With ``--clients`` several commit at the same time, each to a table of its own,
and what they have seen is one. It is a program of its own since it runs in another network namespace.
"""

import argparse
import contextlib
import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, LiteralString

from stealtime.hosts.database.image import DATABASE, PORT, USER

if TYPE_CHECKING:
    import psycopg

_TRY_EVERY_S = 0.2
_CONNECTED_WITHIN_S = 5
_TEXT_BYTES = 200
"""Of each row, beside its number: some twenty rows are a page of the table."""


@dataclass
class Seen:
    """What a client has seen.

    Attributes:
        acknowledged: The number of the last transaction of which the server has said that it is committed; all before
            it were acknowledged, too.
        connections_lost: How often it had to connect again.
        commit_ns: How long each commit took, in ns.
        acknowledged_at_ns: When each was acknowledged, in ns of ``CLOCK_MONOTONIC``.
        longest_silence_ns: The longest time from one acknowledgement to the next.
        missing: Acknowledged transactions that the server does not have at the end.
        damage: What the server finds wrong with its own tables and indexes (``amcheck``).
    """

    acknowledged: int = 0
    connections_lost: int = 0
    commit_ns: list[int] = field(default_factory=list)
    acknowledged_at_ns: list[int] = field(default_factory=list)
    longest_silence_ns: int = 0
    missing: list[int] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)

    def commits_between(self, from_ns: int, to_ns: int) -> list[int]:
        """Give the times, in ns and ascending, of the commits that began and ended between two moments."""
        return sorted(
            took_ns
            for took_ns, at_ns in zip(self.commit_ns, self.acknowledged_at_ns, strict=True)
            if from_ns <= at_ns - took_ns and at_ns < to_ns
        )


def connect(address: str, within_s: float) -> "psycopg.Connection":
    """Connect to the server, which may still be booting.

    Raises:
        TimeoutError: It does not answer.
    """
    import psycopg

    until = time.monotonic() + within_s
    while True:
        try:
            return psycopg.connect(
                host=address,
                port=PORT,
                dbname=DATABASE,
                user=USER,
                autocommit=True,
                connect_timeout=_CONNECTED_WITHIN_S,
            )
        except psycopg.OperationalError as error:
            if time.monotonic() >= until:
                raise TimeoutError(f"{address} does not answer within {within_s:g} s: {error}") from error
            time.sleep(_TRY_EVERY_S)


class Client:
    """Commits numbers, as one client of the server.

    Args:
        address: The server's.
        within_s: How long it may not answer.
        table: Its own.
    """

    def __init__(self, address: str, within_s: float, table: str = "ledger") -> None:
        from psycopg import sql

        self._address = address
        self._within_s = within_s
        self._table = sql.Identifier(table)
        self.seen = Seen()
        self._connection = connect(address, within_s)
        self._execute("CREATE TABLE IF NOT EXISTS {} (number bigint PRIMARY KEY, text text NOT NULL)")
        self._execute("TRUNCATE {}")
        self._last_ns = time.monotonic_ns()

    def commit(self) -> None:
        """Commit the next number; where the connection is lost, see whether it was committed."""
        import psycopg

        number = self.seen.acknowledged + 1
        began_ns = time.monotonic_ns()
        try:
            self._insert(number)
        except psycopg.OperationalError:
            self.seen.connections_lost += 1
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
            self._connection = connect(self._address, self._within_s)
            if not self._execute("SELECT 1 FROM {} WHERE number = %s", (number,)).fetchall():
                self._insert(number)
        now_ns = time.monotonic_ns()
        self.seen.acknowledged = number
        self.seen.commit_ns.append(now_ns - began_ns)
        self.seen.acknowledged_at_ns.append(now_ns)
        self.seen.longest_silence_ns = max(self.seen.longest_silence_ns, now_ns - self._last_ns)
        self._last_ns = now_ns

    def _insert(self, number: int) -> None:
        text = f"{number} " * (_TEXT_BYTES // (len(str(number)) + 1))
        self._execute("INSERT INTO {} VALUES (%s, %s)", (number, text))

    def _execute(self, query: LiteralString, values: tuple[object, ...] = ()) -> "psycopg.Cursor":
        from psycopg import sql

        return self._connection.execute(sql.SQL(query).format(self._table), values)

    def check(self) -> None:
        """Look for each acknowledged number."""
        rows = self._execute("SELECT number FROM {}").fetchall()
        found = {int(row[0]) for row in rows}
        self.seen.missing = [number for number in range(1, self.seen.acknowledged + 1) if number not in found]

    def look_for_damage(self) -> None:
        """Have the server look for damage."""
        self.seen.damage = list(self._damage())

    def _damage(self) -> Iterator[str]:
        """Check each table and each B-tree of the database, as ``pg_amcheck --heapallindexed`` does."""
        import psycopg

        relations = self._connection.execute(
            "SELECT c.oid, c.relname, c.relkind FROM pg_class c JOIN pg_am a ON a.oid = c.relam "
            "WHERE c.relpersistence <> 't' AND c.relkind IN ('r', 't', 'm', 'i') AND a.amname IN ('heap', 'btree')"
        ).fetchall()
        for oid, name, kind in relations:
            query = "SELECT bt_index_check(%s, true)" if kind == "i" else "SELECT * FROM verify_heapam(%s)"
            try:
                rows = self._connection.execute(query, (oid,)).fetchall()
            except psycopg.Error as error:
                yield f"{name}: {error}"
                continue
            if kind != "i":
                yield from (f"{name}: {row}" for row in rows)


def together(seen: Sequence[Seen]) -> Seen:
    """Give what several clients have seen as if it were one: how many were acknowledged to all of them."""
    return Seen(
        acknowledged=sum(one.acknowledged for one in seen),
        connections_lost=sum(one.connections_lost for one in seen),
        commit_ns=[taken for one in seen for taken in one.commit_ns],
        acknowledged_at_ns=[at for one in seen for at in one.acknowledged_at_ns],
        longest_silence_ns=max(one.longest_silence_ns for one in seen),
        missing=[number for one in seen for number in one.missing],
        damage=[text for one in seen for text in one.damage],
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("address")
    options.add_argument("--wait", type=float, default=60.0, help="seconds")
    options.add_argument("--clients", type=int, default=1)
    asked = options.parse_args()
    try:
        clients = [Client(asked.address, asked.wait, f"ledger{number}") for number in range(asked.clients)]
    except TimeoutError as error:
        sys.exit(f"error: {error}")
    is_over = threading.Event()

    def commit(client: Client) -> None:
        while not is_over.is_set():
            client.commit()

    threads = [threading.Thread(target=commit, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()

    def tell() -> None:
        while not is_over.wait(1.0):
            sys.stderr.write(f"{sum(client.seen.acknowledged for client in clients)} transactions are committed\n")
            sys.stderr.flush()

    threading.Thread(target=tell, daemon=True).start()
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()
    for client in clients:
        client.check()
    # It is of the whole database.
    clients[0].look_for_damage()
    sys.stdout.write(f"{json.dumps(asdict(together([client.seen for client in clients])))}\n")


if __name__ == "__main__":
    main()
