// Asks the owner of this run's servers. In a test the runner says where it listens; a script or a bench gets an owner of its own,
// which ends with it.
import { connect } from 'node:net'
import { testFileCount } from '../../test-file-count.ts'
import type { CallInput, CallName, CallOutput, Reply } from './protocol.ts'
import { spawnServersOwner } from './start-owner.ts'

/** Longer than building Kubernetes takes on a slow machine. */
const answerLimitMs = 30 * 60_000

/** Throws with the message of the owner, so that a test shows why its server is missing. */
export async function callServers<N extends CallName>(call: N, given: CallInput<N>): Promise<CallOutput<N>> {
  return callServersAt(await socketPath(), call, given)
}

export async function callServersAt<N extends CallName>(path: string, call: N, given: CallInput<N>): Promise<CallOutput<N>> {
  const text = await exchange(path, `${JSON.stringify({ call, given, by: { pid: process.pid, file: testFileCount() } })}\n`)
  const reply = JSON.parse(text) as Reply
  if ('answer' in reply) return reply.answer as CallOutput<N>
  throw Object.assign(new Error(reply.failed.message), { name: reply.failed.name })
}

async function socketPath(): Promise<string> {
  return (await fromRunner()) ?? ownOwner()
}

/** A program that a test started has the worker's environment, but is none. */
async function fromRunner(): Promise<string | undefined> {
  if (process.env['VITEST_WORKER_ID'] === undefined) return undefined
  try {
    const { inject } = await import('vitest')
    return inject('brokkrServers')
  } catch {
    return undefined
  }
}

/** One per process, however often it asks: the owner lives until its lifeline, the process, ends. */
let own: Promise<string> | undefined

function ownOwner(): Promise<string> {
  own ??= spawnServersOwner().then((owner) => owner.socketPath)
  return own
}

function exchange(path: string, line: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(path)
    const fail = (cause?: Error) => reject(new Error('the process that owns the test servers is gone; its messages stand above', { cause }))
    socket.setEncoding('utf8').setTimeout(answerLimitMs, () => socket.destroy(new Error(`no answer within ${answerLimitMs / 60_000} min`)))
    socket.on('data', (chunk: string) => (text += chunk))
    socket.on('error', fail)
    socket.on('end', () => (text.endsWith('\n') ? resolve(text) : fail()))
    socket.write(line)
  })
}
