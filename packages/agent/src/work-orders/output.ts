// Sends the end of the output of an order's pods, in pieces, after they ended. Failures of this do not affect the order.
import { rowsAt, textAt } from '@brokkr/kube'
import { errorText } from '@brokkr/runtime/errors.ts'
import { readLogTail } from '../diagnostics/log-tail.ts'
import type { Order, OrderDeps } from './order.ts'

/** A piece of output; `offset` is the number of bytes before it. */
export interface OutputPiece {
  readonly attempt: number
  readonly offset: number
  readonly text: string
}
/** Pods of one run of the order. */
export interface PodSelector {
  readonly namespace: string | undefined
  readonly labelSelector: string
}
const outputBytes = 256 * 1024
const pieceBytes = 64 * 1024
const lines = 5_000
const podsMax = 20

export async function sendOrderOutput(deps: OrderDeps, order: Order, runs: readonly PodSelector[], signal: AbortSignal): Promise<void> {
  try {
    const texts: string[] = []
    for (const run of runs) texts.push(await readOutput(deps, run, signal))
    for (const piece of splitOutput(texts.join(''), order.attempt)) await deps.sendOutput(order.id, piece, signal)
  } catch (error) {
    signal.throwIfAborted()
    deps.log.debug('work order output not sent', { id: order.id, why: errorText(error) })
  }
}

async function readOutput({ kube }: OrderDeps, run: PodSelector, signal: AbortSignal): Promise<string> {
  const { items } = await kube.list({ apiVersion: 'v1', kind: 'Pod' }, { ...run, signal })
  const texts: string[] = []
  for (const pod of items.slice(0, podsMax))
    for (const container of [...rowsAt(pod, 'spec', 'initContainers'), ...rowsAt(pod, 'spec', 'containers')]) {
      const name = textAt(container, 'name') ?? ''
      const text = await readLogTail(kube, pod, { container: name, lines, bytes: outputBytes }, signal).catch((error: unknown) => {
        signal.throwIfAborted()
        return `[not readable: ${errorText(error)}]`
      })
      if (text !== '') texts.push(`== ${pod.metadata.name}/${name}\n${text.endsWith('\n') ? text : `${text}\n`}`)
    }
  return texts.join('')
}

/** End of the text, cut between characters. */
export function splitOutput(text: string, attempt: number): OutputPiece[] {
  const bytes = Buffer.from(text)
  const pieces: OutputPiece[] = []
  let from = boundary(bytes, Math.max(0, bytes.length - outputBytes))
  for (let offset = 0; from < bytes.length; ) {
    const end = from + pieceBytes >= bytes.length ? bytes.length : lastBoundary(bytes, from + pieceBytes)
    pieces.push({ attempt, offset, text: bytes.toString('utf8', from, end) })
    offset += end - from
    from = end
  }
  return pieces
}

const isInside = (bytes: Buffer, at: number): boolean => ((bytes[at] ?? 0) & 0xc0) === 0x80

function boundary(bytes: Buffer, at: number): number {
  return isInside(bytes, at) ? boundary(bytes, at + 1) : at
}

function lastBoundary(bytes: Buffer, at: number): number {
  return isInside(bytes, at) ? lastBoundary(bytes, at - 1) : at
}
