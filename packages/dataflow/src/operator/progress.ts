// Asks processors how far they are. One that does not answer in time, or with something else, has not answered.
import { Progress } from '@brokkr/contract/dataflow/progress.ts'
import type { Outbound } from '@brokkr/runtime/outbound.ts'

const answerMs = 5_000
const bytesMax = 1 << 20

/** `places`: `host:port` of each processor. */
export async function readProgress(outbound: Pick<Outbound, 'request'>, places: readonly string[]): Promise<Progress[]> {
  const answers = await Promise.all(places.map((place) => ask(outbound, place)))
  return answers.filter((answer) => answer !== undefined)
}

async function ask(outbound: Pick<Outbound, 'request'>, place: string): Promise<Progress | undefined> {
  try {
    const url = `http://${place}/progress`
    const { status, body } = await outbound.request({ url, timeoutMs: answerMs, answerBytesMax: bytesMax })
    return status === 200 ? Progress.parse(JSON.parse(body.toString())) : undefined
  } catch {
    return undefined
  }
}
