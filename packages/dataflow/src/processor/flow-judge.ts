// What becomes of messages and records that cannot be written: the judge of a flow, and the letters it sends.
import type { Source } from './connectors/connector.ts'
import { createLetterMaker } from './dead-letter.ts'
import type { FlowWatch } from './flow-watch.ts'
import { Judge } from './judge.ts'
import type { Lane } from './lane.ts'
import { LetterSender } from './letter-sender.ts'
import type { OpenMessages } from './open-messages.ts'
import { flowKey, type PipelineDeps, type PipelineOptions } from './pipeline-options.ts'

export function makeLetters(deps: PipelineDeps, options: PipelineOptions, lane: () => Lane): LetterSender | undefined {
  const { flow, specHash } = options
  if (flow.errors === undefined) return undefined
  const maker = createLetterMaker({
    flow: flowKey(options),
    specHash,
    payload: flow.errors.payload,
    transformations: flow.transformations,
    redact: (text) => deps.redact(text),
  })
  return new LetterSender({ clock: deps.clock, maker: deps.replay?.letters(maker) ?? maker, lane })
}

export interface JudgeParts {
  readonly stopping: AbortSignal
  readonly open: OpenMessages
  readonly watch: FlowWatch
  readonly source: Source
  readonly letters: LetterSender | undefined
}

export function makeJudge(deps: PipelineDeps, options: PipelineOptions, parts: JudgeParts): Judge {
  const { flow, settings, oneShots } = options
  const { stopping, open, watch, source, letters } = parts
  const judge = new Judge({
    clock: deps.clock,
    stopping,
    open,
    holds: watch.holds,
    letters,
    errors: flow.errors,
    blockedEveryMs: settings.blockedEveryMs,
    skip: oneShots.skip,
    describe: ({ tracker, position }) => source.describe(new Map([[tracker.partition, position]])),
    lettered: (stage, type) => watch.lettered(stage, type),
    dropped: (reason) => watch.dropped(reason, 1),
  })
  watch.judge = judge
  return judge
}
