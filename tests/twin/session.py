"""One connection of a twin run: simple query protocol, text results, compared byte for byte."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass

from psycopg import pq

from script import Statement

OK = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY}
TIMEOUT, LOST = "timeout", "connection lost"


@dataclass
class Outcome:
    """What a statement gave: names, rows and tag, or an error code (`timeout` and `connection lost` are codes too)."""

    names: list[str] | None = None
    rows: list[tuple[str | None, ...]] | None = None
    tag: str = ""
    error: str = ""
    message: str = ""

    def same_as(self, other: "Outcome", unordered: bool) -> bool:
        if TIMEOUT in (self.error, other.error) or LOST in (self.error, other.error):
            return False
        if self.error or other.error:
            return self.error == other.error
        mine, theirs = self.rows, other.rows
        if unordered and mine is not None and theirs is not None:
            mine, theirs = sorted(mine, key=_sort_key), sorted(theirs, key=_sort_key)
        return (self.names, mine, self.tag) == (other.names, theirs, other.tag)

    def describe(self, limit: int = 12) -> str:
        if self.error:
            return f"error {self.error}: {self.message}"
        text = self.tag
        if self.rows is not None:
            shown = ["  " + " | ".join("NULL" if v is None else v for v in row) for row in self.rows[:limit]]
            more = [f"  … {len(self.rows) - limit} more"] if len(self.rows) > limit else []
            text = "\n".join([" | ".join(self.names or []), *shown, *more, self.tag])
        return text


def _sort_key(row: tuple) -> list:
    return [(value is None, value or "") for value in row]


class Session:
    def __init__(self, conninfo: str, timeout_s: float):
        self.conn = pq.PGconn.connect(conninfo.encode())
        if self.conn.status != pq.ConnStatus.OK:
            raise ConnectionError(self.conn.get_error_message())
        self.timeout_s = timeout_s

    def close(self) -> None:
        self.conn.finish()

    def in_transaction(self) -> bool:
        return self.conn.transaction_status in (pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR)

    def run(self, statement: Statement | str) -> Outcome:
        if isinstance(statement, str):
            statement = Statement(statement, 0)
        if self.conn.status != pq.ConnStatus.OK:
            return Outcome(error=LOST)
        deadline = time.monotonic() + self.timeout_s
        outcome = Outcome()
        try:
            self.conn.send_query(statement.text.encode())
            while True:
                if not self._wait(deadline):
                    self._cancel()
                    return Outcome(error=TIMEOUT, message=f"no answer within {self.timeout_s:g} s")
                result = self.conn.get_result()
                if result is None:
                    return outcome
                outcome = self._take(result, statement, deadline, outcome)
        except Exception as error:  # psycopg raises when the server is gone
            if self.conn.status == pq.ConnStatus.OK:
                raise
            return Outcome(error=LOST, message=str(error))

    def _wait(self, deadline: float) -> bool:
        while self.conn.flush() == 1 or self.conn.is_busy():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            ready, _, _ = select.select([self.conn.socket], [], [], min(left, 0.2))
            if ready:
                self.conn.consume_input()
        return True

    def _cancel(self) -> None:
        self.conn.get_cancel().cancel()
        if self._wait(time.monotonic() + 10):
            while self.conn.get_result() is not None:
                pass
        else:
            self.conn.finish()

    def _take(self, result, statement: Statement, deadline: float, before: Outcome) -> Outcome:
        if result.status == pq.ExecStatus.COPY_IN:
            self.conn.put_copy_data((statement.copy_data or "").encode())
            self.conn.put_copy_end()
            return before
        if result.status == pq.ExecStatus.COPY_OUT:
            return Outcome(names=["copy"], rows=self._copy_out(deadline))
        if result.status in OK:
            tag = (result.command_status or b"").decode()
            if result.status == pq.ExecStatus.TUPLES_OK:
                names = [(result.fname(i) or b"").decode() for i in range(result.nfields)]
                return Outcome(names, [_row(result, r) for r in range(result.ntuples)], tag)
            return Outcome(before.names, before.rows, tag)
        code = result.error_field(pq.DiagnosticField.SQLSTATE)
        message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
        return Outcome(error=(code or LOST.encode()).decode(), message=(message or b"").decode())

    def _copy_out(self, deadline: float) -> list[tuple[str | None, ...]]:
        rows = []
        while True:
            length, data = self.conn.get_copy_data(1)
            if length > 0:
                rows.append((bytes(data).decode().rstrip("\n"),))
            elif length == 0:
                if time.monotonic() > deadline:
                    return rows
                select.select([self.conn.socket], [], [], 0.2)
                self.conn.consume_input()
            else:
                return rows


def _row(result, number: int) -> tuple[str | None, ...]:
    values = (result.get_value(number, i) for i in range(result.nfields))
    return tuple(None if v is None else bytes(v).decode() for v in values)
