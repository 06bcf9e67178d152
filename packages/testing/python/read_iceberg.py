# Prints the columns and rows of an Iceberg table as one line of JSON. Settings are in the environment, because they have keys.
import base64
import datetime
import decimal
import json
import os
import uuid

from pyiceberg.catalog import load_catalog


def text(value):
    if isinstance(value, (decimal.Decimal, uuid.UUID)):
        return str(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [text(item) for item in value]
    # Digits of integers survive as text.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


settings = json.loads(os.environ["BROKKR_ICEBERG"])
table = load_catalog("lake", **settings["catalog"]).load_table(settings["table"])
rows = table.scan(**settings["scan"]).to_arrow().to_pylist()
types = {field.name: str(field.field_type) for field in table.schema().fields}
print("RESULT " + json.dumps({"types": types, "rows": [text(row) for row in rows]}))
