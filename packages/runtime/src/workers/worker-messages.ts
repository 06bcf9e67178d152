// Messages between a worker pool and its workers, and the worker's side: a worker file calls serveJobs once.
import { parentPort, type Transferable } from 'node:worker_threads'
import { Failure, toError } from '../errors.ts'

export type JobMessage = { job: number; input: unknown }
export type WorkerMessage =
  | { is: 'ready' }
  | { is: 'done'; job: number; output: unknown }
  | { is: 'failed'; job: number; message: string; code: string | undefined }

/** The handler adds to `moved` the memory of its output that is transferred instead of copied. */
type Handle = (input: unknown, moved: Transferable[]) => unknown

/** Handles jobs one after the other. An error of the handler reaches the caller of the pool with its message and code. */
export function serveJobs(handle: Handle): void {
  const port = parentPort
  if (!port) throw new Error('serveJobs is called in a worker thread that a worker pool has started')
  port.on('message', ({ job, input }: JobMessage) => {
    const moved: Transferable[] = []
    void runHandler((given) => handle(given, moved), job, input).then((message) =>
      port.postMessage(message, message.is === 'done' ? moved : []),
    )
  })
  port.postMessage({ is: 'ready' } satisfies WorkerMessage)
}

async function runHandler(handle: (input: unknown) => unknown, job: number, input: unknown): Promise<WorkerMessage> {
  try {
    return { is: 'done', job, output: await handle(input) }
  } catch (thrown) {
    const error = toError(thrown)
    return { is: 'failed', job, message: error.message, code: error instanceof Failure ? error.code : undefined }
  }
}
