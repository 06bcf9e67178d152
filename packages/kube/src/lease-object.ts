// The Lease object of an election, read and written. Pure.
import type { KubeObject } from './object.ts'

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

/** A Lease without a duration, written by somebody else, is given the usual 15 s. */
export const leaseDurationMs = (lease: LeaseObject): number => (lease.spec.leaseDurationSeconds ?? 15) * 1000

/** Ours from now on. The number of transitions grows when the holder changes. */
export function takenLease(lease: LeaseObject, by: { identity: string; durationMs: number; nowMs: number }): LeaseObject {
  const now = `${new Date(by.nowMs).toISOString().slice(0, -1)}000Z`
  const renewed = leaseHolder(lease) === by.identity
  return {
    ...lease,
    spec: {
      ...lease.spec,
      holderIdentity: by.identity,
      // Whole seconds are all that the field holds; rounding up keeps others waiting longer, never shorter.
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
