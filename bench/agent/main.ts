// The agent beside the bare requests it stands for, in one run on one API server with its default limits: throughput, the way from
// a submission to the cluster, and memory. Ratios are the bars; the rest is for reading.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { privateCluster } from '@brokkr/testing/servers/kube.ts'
import { latency } from './latency.ts'
import { memory } from './memory.ts'
import { throughput } from './throughput.ts'
import { wholeWay } from './whole-way.ts'

const objects = Number(process.env['BENCH_OBJECTS'] ?? 10_000)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const parts = (process.env['BENCH_PARTS'] ?? 'throughput,wholeWay,latency,memory').split(',')
const dir = mkdtempSync(join(tmpdir(), 'bench-agent-'))
// Controllers take CPU from the measured programs, so they run only for the memory part.
const plane = await privateCluster({ controllers: false })
if (parts.includes('throughput')) await throughput(plane, dir, { objects, stacks: objects / 100, rounds })
if (parts.includes('wholeWay')) await wholeWay(plane, dir, { objects, stacks: objects / 100, rounds })
if (parts.includes('latency')) await latency(plane, Number(process.env['BENCH_SUBMISSIONS'] ?? 100))
await plane.stop()
if (parts.includes('memory')) {
  const busy = await privateCluster({ controllers: true })
  await memory(busy, dir, {
    objects: objects / 2,
    stacks: 50,
    pods: Number(process.env['BENCH_PODS'] ?? 2_000),
    events: Number(process.env['BENCH_EVENTS'] ?? 50_000),
    quietSeconds: Number(process.env['BENCH_QUIET_SECONDS'] ?? 60),
    driftSeconds: Number(process.env['BENCH_DRIFT_SECONDS'] ?? 60),
  })
  await busy.stop()
}
process.exit(0)
