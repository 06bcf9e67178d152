// The worker of the pool's tests: executes the job in its input.
import { Terminal } from '../errors.ts'
import { serveJobs } from '../workers/worker-messages.ts'

export type PoolJob =
  | { do: 'add'; a: number; b: number }
  | { do: 'fail'; message: string; code?: string }
  | { do: 'spin' }
  | { do: 'hoard' }
  | { do: 'exit' }
  | { do: 'environment' }
  | { do: 'bytes'; buffer: ArrayBuffer }
  /** Signals its start through shared memory, then waits there for release. */
  | { do: 'hold'; gate: Int32Array }

serveJobs((input) => run(input as PoolJob))

function run(job: PoolJob): unknown {
  if (job.do === 'add') return job.a + job.b
  if (job.do === 'fail') throw new Terminal(job.message, job.code === undefined ? {} : { code: job.code })
  if (job.do === 'hoard') return hoard()
  if (job.do === 'exit') return process.exit(3)
  if (job.do === 'environment') return Object.keys(process.env)
  if (job.do === 'bytes') return job.buffer.byteLength
  if (job.do === 'hold') return waitAt(job.gate)
  for (;;);
}

function waitAt(gate: Int32Array): string {
  Atomics.store(gate, 0, 1)
  Atomics.wait(gate, 1, 0)
  return 'let go'
}

function hoard(): number {
  const retained: object[] = []
  for (;;) retained.push({ at: retained.length, text: `${retained.length}` })
}
