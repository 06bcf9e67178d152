// Reads and builds the Lease object of an election. Pure.
import type { KubeObject } from '../client/object.ts'

export interface LeaseObject extends KubeObject {
  spec: {
    holderIdentity?: string
    leaseDurationSeconds?: number
    acquireTime?: string
    renewTime?: string
    leaseTransitions?: number
  }
}

export const emptyLease = (at: { name: string; namespace: string }): LeaseObject => ({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  metadata: { ...at },
  spec: {},
})

export const leaseHolder = (lease: LeaseObject): string => lease.spec.holderIdentity ?? ''

/** A Lease without a duration, written by another client, counts as 15 s. */
export const leaseDurationMs = (lease: LeaseObject): number => (lease.spec.leaseDurationSeconds ?? 15) * 1000

/** Makes this candidate the holder. The transition count increases when the holder changes. */
export function takenLease(lease: LeaseObject, by: { identity: string; durationMs: number; nowMs: number }): LeaseObject {
  const now = `${new Date(by.nowMs).toISOString().slice(0, -1)}000Z`
  const renewed = leaseHolder(lease) === by.identity
  return {
    ...lease,
    spec: {
      ...lease.spec,
      holderIdentity: by.identity,
      // The field has whole seconds; rounding up makes others wait longer, never shorter.
      leaseDurationSeconds: Math.max(1, Math.ceil(by.durationMs / 1000)),
      acquireTime: renewed ? (lease.spec.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: (lease.spec.leaseTransitions ?? 0) + (renewed ? 0 : 1),
    },
  }
}

export const releasedLease = (lease: LeaseObject): LeaseObject => ({
  ...lease,
  spec: { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1 },
})
