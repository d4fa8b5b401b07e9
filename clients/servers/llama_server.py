"""The server of llama.cpp (llama-server), as the package xllamacpp has it ready-made, with one slot and one thread.

usage: llama_server.py MODEL PORT
"""

import signal
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.model_alias = {"tiny"}
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.n_ctx = 0
params.n_parallel = 1
# Threads that wait for each other on a busy machine take a hundred times as long.
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.endpoint_slots = True
server = xllamacpp.Server(params)
signal.pause()
