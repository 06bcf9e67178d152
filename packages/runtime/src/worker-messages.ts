// What a worker pool and its workers say to each other, and the worker's side of it: a worker file calls serveJobs once.
import { parentPort } from 'node:worker_threads'
import { Failure, toError } from './errors.ts'

export type JobMessage = { job: number; input: unknown }
export type WorkerMessage =
  | { is: 'ready' }
  | { is: 'done'; job: number; output: unknown }
  | { is: 'failed'; job: number; message: string; code: string | undefined }

/** Handles one job after the other. What the handler throws reaches the caller of the pool with its message and code. */
export function serveJobs(handle: (input: unknown) => unknown): void {
  const port = parentPort
  if (!port) throw new Error('serveJobs is called in a worker thread that a worker pool has started')
  port.on('message', ({ job, input }: JobMessage) => {
    void outcomeOf(handle, job, input).then((message) => port.postMessage(message))
  })
  port.postMessage({ is: 'ready' } satisfies WorkerMessage)
}

async function outcomeOf(handle: (input: unknown) => unknown, job: number, input: unknown): Promise<WorkerMessage> {
  try {
    return { is: 'done', job, output: await handle(input) }
  } catch (thrown) {
    const error = toError(thrown)
    return { is: 'failed', job, message: error.message, code: error instanceof Failure ? error.code : undefined }
  }
}
