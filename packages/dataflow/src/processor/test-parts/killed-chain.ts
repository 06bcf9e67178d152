// A flow that is killed again and again: its processor, how far it has come, and what it says of itself when a test waits in vain.
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { type RealProcessor, startProcessor } from './real-flow.ts'

export interface KilledChain {
  readonly name: string
  /** Grows with what has arrived. */
  progress(): Promise<number>
  /** Waits until it has come further than this. */
  passes(before: number): Promise<void>
  /** Without warning; it is started again at once. */
  kill(): Promise<void>
  stop(): Promise<number | null>
  /** For the message of a failure: a flow that has lost something says here that nothing is left to do. */
  state(): Promise<string>
}

export async function startChain(
  name: string,
  spec: Record<string, unknown>,
  arrived: () => Promise<number>,
  limitMs: number,
): Promise<KilledChain> {
  // A server that was just started may not answer yet.
  const progress = () => waitFor(`how far ${name} has come`, arrived, { limitMs })
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const start = () => startProcessor(spec, { folder, name })
  let processor: RealProcessor = await start()
  const state = async (): Promise<string> => {
    const page = await processor.page('/progress').catch((error: unknown) => ({ text: String(error) }))
    return `arrived: ${await arrived()}\n${page.text}\n${processor.logTail(30)}`
  }
  return {
    name,
    progress,
    passes: async (before) =>
      void (await waitFor(`progress of ${name} beyond ${before}`, async () => (await arrived()) > before, { limitMs, onTimeout: state })),
    kill: async () => {
      await processor.kill('SIGKILL')
      processor = await start()
    },
    stop: () => processor.stop(),
    state,
  }
}
