"""Serves ClickHouse's HTTP interface from libchdb until it is killed.

usage: clickhouse_http.py libchdb.so http_port data_dir [arguments of clickhouse-local]

The library exports the command line of clickhouse-local, which has the listener of the server. The query behind the
listener only sleeps: it keeps the process alive.
"""
import ctypes
import os
import signal
import sys

library, port, path, *extra = sys.argv[1:]
signal.signal(signal.SIGTERM, signal.SIG_DFL)
sleep = (
    "SELECT sleepEachRow(3) FROM numbers(100000000) SETTINGS max_block_size = 1, "
    "function_sleep_max_microseconds_per_block = 0, max_execution_time = 0 FORMAT Null"
)
args = ["clickhouse", "--http_port", port, "--listen_host", "127.0.0.1", "--path", path, *extra]
args += ["--query", f"SYSTEM START LISTEN HTTP; {sleep}"]
argv = (ctypes.c_char_p * (len(args) + 1))(*[arg.encode() for arg in args], None)
chdb = ctypes.CDLL(os.path.abspath(library))
chdb.chdb_query_cmdline.restype = ctypes.c_void_p
chdb.chdb_result_error.restype = ctypes.c_char_p
chdb.chdb_result_error.argtypes = [ctypes.c_void_p]
print(chdb.chdb_result_error(chdb.chdb_query_cmdline(len(args), argv)), file=sys.stderr)
