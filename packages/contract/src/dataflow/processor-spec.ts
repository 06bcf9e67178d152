// Text that the operator passes to a processor: the flow's spec with resolved secrets, its one-shots, and the locations of values from
// secrets, so that they can be redacted.
import { z } from 'zod'
import { printSpec } from './spec/print-spec.ts'
import type { Flow, FlowKind } from './spec/types.ts'

const orderId = z.string().min(1).max(253)

export const RewindTo = z.union([
  z.enum(['earliest', 'latest']),
  z.strictObject({ time: z.string() }),
  z.strictObject({ offsets: z.record(z.string(), z.number().int().min(0)) }),
  z.strictObject({ changeTime: z.string(), orderValue: z.string().optional() }),
  z.strictObject({ lsn: z.string() }),
  z.strictObject({ snapshotId: z.string() }),
  z.strictObject({ resnapshot: z.array(z.string()).min(1) }),
])
export type RewindTo = z.output<typeof RewindTo>

export const OneShots = z.object({
  resetId: orderId.optional(),
  rewind: z.object({ id: orderId, to: RewindTo }).optional(),
  /** Position of the blocked message, as in `blocked`. */
  skip: z.string().optional(),
})
export type OneShots = z.output<typeof OneShots>

export const ProcessorSpec = z.object({
  kind: z.enum(['DataFlow', 'DataFlowCron']).default('DataFlow'),
  metadata: z.looseObject({ name: z.string().optional(), namespace: z.string().optional() }).optional(),
  spec: z.record(z.string(), z.unknown()),
  oneShots: OneShots.default({}),
  /** Locations of values from secrets, as keys from the spec on. */
  secretPlaces: z.array(z.array(z.union([z.string(), z.number()]))).default([]),
  /** From the annotation max-lag-seconds. */
  lagObjectiveSeconds: z.number().optional(),
})
export type ProcessorSpec = z.output<typeof ProcessorSpec>

/** `flow` has its secrets resolved; `secretPlaces` are its former references. */
export function processorSpecText(
  flow: Flow,
  orders: { readonly kind: FlowKind; readonly oneShots?: OneShots; readonly secretPlaces?: ProcessorSpec['secretPlaces'] },
): string {
  const { kind, oneShots = {}, secretPlaces = [] } = orders
  return JSON.stringify({ kind, spec: printSpec(flow), oneShots, secretPlaces })
}
