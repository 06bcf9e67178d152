import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, expect, test } from 'vitest'
import type { PoolJob } from '../test-parts/pool-worker.ts'
import { createWorkerPool, type WorkerPool, type WorkerPoolOptions } from './worker-pool.ts'

const open: WorkerPool<PoolJob, unknown>[] = []
afterEach(async () => void (await Promise.all(open.splice(0).map((pool) => pool.close()))))

function setup(options: Partial<WorkerPoolOptions> = {}): WorkerPool<PoolJob, unknown> {
  const pool = createWorkerPool<PoolJob, unknown>({
    file: new URL('../test-parts/pool-worker.ts', import.meta.url),
    workers: 1,
    timeoutMs: 60_000,
    memoryMb: 64,
    ...options,
  })
  open.push(pool)
  return pool
}

/** A job that has begun and waits until it is let go. */
async function hold(pool: WorkerPool<PoolJob, unknown>, signal?: AbortSignal) {
  const gate = new Int32Array(new SharedArrayBuffer(8))
  const result = pool.run({ do: 'hold', gate }, signal ? { signal } : {})
  const settled = result.then(
    () => 'done',
    (error: unknown) => error,
  )
  const release = () => {
    Atomics.store(gate, 1, 1)
    Atomics.notify(gate, 1)
  }
  return { result, settled, release, begun: () => waitFor('the job to begin', () => Atomics.load(gate, 0) === 1) }
}

const add = (a: number, b: number): PoolJob => ({ do: 'add', a, b })

test('a job that waits for its turn is not ended by its limit on CPU time', async () => {
  const pool = setup({ timeoutMs: 1_000 })
  const held = await hold(pool)
  await held.begun()
  // The job holds its worker for longer than the limit and uses no CPU time.
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  held.release()
  expect(await held.settled).toBe('done')
})

test('a job that neither works nor ends is ended after ten times its limit', async () => {
  const pool = setup({ timeoutMs: 100 })
  const held = await hold(pool)
  expect(await held.settled).toMatchObject({ code: 'worker_timeout', message: 'the job took longer than 100 ms and was ended' })
})

test('jobs run beside the event loop and return in any order', async () => {
  const pool = setup({ workers: 2 })
  const sums = await Promise.all(Array.from({ length: 20 }, (_, n) => pool.run(add(n, n))))
  expect(sums).toEqual(Array.from({ length: 20 }, (_, n) => 2 * n))
})

test('the error of a job has its message and code, and the worker continues', async () => {
  const pool = setup()
  await expect(pool.run({ do: 'fail', message: 'too deep', code: 'yaml_depth' })).rejects.toMatchObject({
    name: 'Terminal',
    message: 'too deep',
    code: 'yaml_depth',
  })
  await expect(pool.run({ do: 'fail', message: 'plain' })).rejects.toMatchObject({ code: undefined })
  expect(await pool.run(add(1, 2))).toBe(3)
})

test('a job over its time limit ends only its own worker', async () => {
  const pool = setup({ workers: 2, timeoutMs: 1_000 })
  await pool.run(add(0, 0))
  let ticks = 0
  const ticking = setInterval(() => (ticks += 1), 5)
  const spinning = pool.run({ do: 'spin' })
  expect(await pool.run(add(1, 2))).toBe(3)
  await expect(spinning).rejects.toMatchObject({
    name: 'Terminal',
    code: 'worker_timeout',
    message: 'the job took longer than 1000 ms and was ended',
  })
  clearInterval(ticking)
  expect(ticks).toBeGreaterThan(5)
  expect(await Promise.all([pool.run(add(2, 2)), pool.run(add(3, 3))])).toEqual([4, 6])
})

test('a job over its memory ends its worker alone', async () => {
  const pool = setup({ memoryMb: 16 })
  await expect(pool.run({ do: 'hoard' })).rejects.toMatchObject({ name: 'Terminal', code: 'worker_memory' })
  expect(await pool.run(add(1, 2))).toBe(3)
})

test('a worker that exits by itself is replaced', async () => {
  const pool = setup()
  await expect(pool.run({ do: 'exit' })).rejects.toMatchObject({ code: 'worker_failed' })
  expect(await pool.run(add(1, 2))).toBe(3)
})

test('a worker file that cannot be loaded fails its jobs, each of them', async () => {
  const pool = setup({ file: new URL('../test-parts/broken-worker.ts', import.meta.url) })
  for (const _ of [1, 2])
    await expect(pool.run(add(1, 2))).rejects.toMatchObject({ code: 'worker_failed', cause: { message: 'cannot be loaded' } })
})

test('a full queue rejects with overloaded, and later accepts again', async () => {
  const pool = setup({ waitingMax: 2 })
  const held = await hold(pool)
  const waiting = [pool.run(add(1, 1)), pool.run(add(2, 2))]
  expect(pool.waiting).toBe(2)
  await expect(pool.run(add(3, 3))).rejects.toMatchObject({ name: 'Retryable', code: 'overloaded' })
  held.release()
  expect(await Promise.all(waiting)).toEqual([2, 4])
  expect(await pool.run(add(3, 3))).toBe(6)
})

test('an aborted job leaves the queue, or loses its worker, with the reason of its signal', async () => {
  const pool = setup()
  const running = new AbortController()
  const waiting = new AbortController()
  const held = await hold(pool, running.signal)
  const queued = pool.run(add(1, 1), { signal: waiting.signal })
  const behind = pool.run(add(2, 2))
  await held.begun()
  const reason = new Error('client gone')
  waiting.abort(reason)
  await expect(queued).rejects.toBe(reason)
  running.abort(reason)
  expect(await held.settled).toBe(reason)
  expect(await behind).toBe(4)
  await expect(pool.run(add(1, 1), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
})

test('transferred data is moved, and data that cannot be sent fails its job', async () => {
  const pool = setup()
  const buffer = new ArrayBuffer(1_000)
  expect(await pool.run({ do: 'bytes', buffer }, { transfer: [buffer] })).toBe(1_000)
  expect(buffer.byteLength).toBe(0)
  await expect(pool.run({ do: 'add', a: (() => 1) as unknown as number, b: 1 })).rejects.toMatchObject({ code: 'worker_input' })
  expect(await pool.run(add(1, 2))).toBe(3)
})

test('a worker sees nothing of the environment', async () => {
  expect(await setup().run({ do: 'environment' })).toEqual([])
})

test('close ends running and waiting jobs and rejects new ones', async () => {
  const pool = setup()
  const held = await hold(pool)
  const queued = pool.run(add(1, 1)).catch((error: unknown) => error)
  await held.begun()
  await pool.close()
  expect(await held.settled).toMatchObject({ code: 'closed' })
  expect(await queued).toMatchObject({ code: 'closed' })
  await expect(pool.run(add(1, 1))).rejects.toMatchObject({ code: 'closed' })
  await pool.close()
})
