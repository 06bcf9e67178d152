// Fields of DataFlow.spec and DataFlowCron.spec besides source, sink, transformations and errors.
import { optional, required, standard, type Values } from '../fields/field.ts'
import { choice, cron, flag, ianaZone, listOf, mapOf, opaqueList, opaqueMap, request, text, time } from '../fields/kinds.ts'
import { duration, size, whole } from '../fields/kinds-number.ts'
import { block } from '../fields/read-fields.ts'

const maintenance = block({
  startTime: optional(time),
  durationMs: optional(duration({ min: 0, above: true }), { from: 'duration' }),
  repeat: optional(choice(['daily', 'weekly', 'monthly'])),
  timezone: standard(ianaZone, 'UTC'),
  description: optional(text),
  suspended: standard(flag, false),
})

/** The older `scheduling` block contains the same three fields. */
export const schedulingFields = {
  nodeSelector: optional(mapOf(text, { blank: true })),
  affinity: optional(opaqueMap),
  tolerations: optional(opaqueList),
}

export const flowFields = {
  resources: standard(opaqueMap, { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } }),
  processorImage: optional(text),
  processorVersion: optional(text),
  ...schedulingFields,
  imagePullSecrets: optional(opaqueList),
  checkpointPersistence: standard(flag, true),
  checkpointSaveIntervalMs: standard(duration({ min: 1000 }), 10_000, { from: 'checkpointSaveInterval' }),
  checkpointSyncOnAck: standard(flag, false),
  checkpointReset: optional(request),
  ackGranularity: standard(choice(['batch', 'message']), 'batch'),
  collapseBatchOnMessageAck: standard(flag, true),
  strictIdempotency: standard(flag, false),
  channelBufferSize: standard(whole({ min: 1 }), 100),
  maxInFlightBytes: standard(size({ min: 1 << 20 }), 32 << 20),
  maxMessageBytes: standard(size({ min: 0, above: true }), 10 << 20),
  transformWorkers: standard(whole({ min: 1, max: 64 }), 1),
  replicas: standard(whole({ min: 0 }), 1),
  maintenance: optional(maintenance),
  /** Only `safe` is accepted. */
  compat: standard(choice(['safe']), 'safe'),
}
export type FlowValues = Values<typeof flowFields>

const trigger = block({
  name: optional(text),
  image: required(text),
  command: optional(listOf(text, { blank: true })),
  args: optional(listOf(text, { blank: true })),
  env: optional(opaqueList),
  resources: optional(opaqueMap),
  imagePullPolicy: optional(text),
})

export const cronFields = {
  schedule: required(cron),
  timeZone: standard(ianaZone, 'UTC'),
  concurrencyPolicy: standard(choice(['Allow', 'Forbid', 'Replace']), 'Forbid'),
  successfulJobsHistoryLimit: standard(whole({ min: 0 }), 3),
  failedJobsHistoryLimit: standard(whole({ min: 0 }), 1),
  startingDeadlineSeconds: optional(whole({ min: 0 })),
  suspend: standard(flag, false),
  triggers: standard(listOf(trigger), []),
}
export type CronValues = Values<typeof cronFields>

export const errorsFields = {
  ackPolicy: standard(choice(['afterWrite', 'never', 'afterMainSinkSuccess']), 'afterWrite'),
  payload: optional(choice(['full', 'masked'])),
  maxConsecutive: standard(whole({ min: 0 }), 1000),
}

export const transformationFields = { onNonJson: optional(choice(['pass', 'error'])) }
