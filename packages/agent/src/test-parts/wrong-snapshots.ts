// Frames of a real broker made untrue on the way: lists that are cut, that lose a stack, that come from another history.
import { createHash } from 'node:crypto'
import { type DigestLine, digestText } from '@brokkr/contract/feed/digest.ts'
import { type Frame, type FrameOf, parseFrame } from '@brokkr/contract/feed/stream.ts'
import { cut, type Fault } from '@brokkr/testing/faults/broker-proxy.ts'

export interface Lie {
  /** Stacks that are left out of a list. */
  readonly isLost?: (stackId: string) => boolean
  /** Before the end of the list the connection is cut. */
  readonly cutsEnd?: boolean
  /** Changes the snapshot_end frame; by default it matches the remaining frames. */
  readonly end?: (honest: FrameOf<'snapshot_end'>, original: FrameOf<'snapshot_end'>) => FrameOf<'snapshot_end'>
  readonly epoch?: string
}

/** For the stream alone; everything else passes. Each request gets a list of its own. */
export const lying =
  (lie: Lie) =>
  ({ path }: { path: string }): Fault =>
    path.endsWith('/stream') ? { do: 'rewrite', line: rewriter(lie) } : { do: 'pass' }

function rewriter(lie: Lie): (line: string) => string | null | typeof cut {
  let isListing = false
  const lines: DigestLine[] = []
  let removals = 0
  const changeFrame = (frame: Frame): Frame | null | typeof cut => {
    switch (frame.type) {
      case 'hello':
        return lie.epoch === undefined ? frame : { ...frame, epoch: lie.epoch, mode: 'snapshot' }
      case 'snapshot_begin':
        isListing = true
        return frame
      case 'put': {
        if (!isListing) return frame
        if (lie.isLost?.(frame.stack_id)) return null
        const object = frame.object && { id: frame.object.id, checksum: frame.object.yaml_checksum }
        lines.push({ stackId: frame.stack_id, rev: frame.rev, object })
        return frame
      }
      case 'del':
        if (isListing) removals++
        return frame
      case 'snapshot_end': {
        isListing = false
        const honest = { ...frame, count: lines.length, digest: sha256(digestText(lines)), removals }
        return lie.cutsEnd ? cut : (lie.end?.(honest, frame) ?? honest)
      }
      case 'skip':
      case 'look':
      case 'change':
      case 'bookmark':
      case 'ping':
      case 'bye':
        return frame
      default:
        return frame satisfies never
    }
  }
  return (line) => {
    const frame = parseFrame(line)
    const changedFrame = frame === null ? null : changeFrame(frame)
    return typeof changedFrame === 'object' && changedFrame !== null ? JSON.stringify(changedFrame) : changedFrame
  }
}

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex')
