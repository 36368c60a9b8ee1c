"""Errors of ordinary tables come through the extension's hooks with everything PostgreSQL says about them."""

from __future__ import annotations

import psycopg
import pytest

pytestmark = pytest.mark.coldfront


def test_errors_keep_context_and_constraint(db):
    db.execute("CREATE TABLE plain (a int CONSTRAINT positive CHECK (a > 0), b text CONSTRAINT once UNIQUE)")
    with pytest.raises(psycopg.errors.InvalidTextRepresentation) as caught, db.cursor() as cursor, cursor.copy("COPY plain FROM STDIN") as copy:
        copy.write("1\tx\nz\ty\n")
    assert 'COPY plain, line 2, column a: "z"' in caught.value.diag.context
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        db.execute("DO $$ BEGIN INSERT INTO plain VALUES (-1, 'a'); END $$")
    assert caught.value.diag.constraint_name == "positive" and "inline_code_block line 1" in caught.value.diag.context
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        db.execute("INSERT INTO plain VALUES (1, 'q'), (2, 'q')")
    assert (caught.value.diag.constraint_name, caught.value.diag.table_name) == ("once", "plain")
