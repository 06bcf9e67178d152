// Screens with fixed data, as people see them.
import { stripVTControlCharacters } from 'node:util'
import type { Overview } from '@brokkr/contract/agents/fleet.ts'
import type { TreeNode } from '@brokkr/contract/stacks/resource-tree.ts'
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { beforeAll, expect, test, vi } from 'vitest'
import { stuckLines } from './commands/explain/stuck.ts'
import { type TargetFacts, targetLines } from './commands/explain/target.ts'
import { findingLines } from './commands/setup/doctor.ts'
import { statusLines } from './commands/stacks/status.ts'
import { treeLines } from './commands/stacks/tree.ts'
import { formatTable } from './table.ts'

const now = '2026-05-03T14:14:11.000000Z'
beforeAll(() => {
  vi.useFakeTimers({ now: Date.parse(now), toFake: ['Date'] })
  return () => vi.useRealTimers()
})

const overview: Overview = {
  at: now,
  fleet: { total: 415, current: 412, behind: 2, silent: 1, never: 0 },
  stacks: { total: 1210, healthy: 1204, degraded: 4, failing: 2, unknown: 0, drifted: 0 },
  holds: 1,
  decisions: { prune_held: 0, agents_waiting: null, approvals: null },
  deliveries: { pending: 0, failed: 0, dead_24h: 0, oldest_pending_seconds: null },
  work_orders: { pending: 3, claimed: 0, retry_pending: 0 },
  oldest_seen_at: '2026-05-03T14:13:31.000000Z',
}

test('status', () => {
  const wrong = [
    { name: 'shop', reasons: ['failing', 'failed on 1 of 50 agents'] },
    { name: 'ledger', reasons: ['current on 2 of 3 agents'] },
  ]
  expect(`\n${statusLines(overview, wrong).join('\n')}\n`).toBe(
    [
      '',
      'broker   ok',
      'fleet    412 of 415 current   2 behind   1 silent   oldest report 40 s ago',
      'stacks   1204 of 1210 healthy   4 degraded   2 failing',
      'guard    no prune is held',
      'holds    1',
      'orders   3 pending',
      'wrong    shop   failing   failed on 1 of 50 agents',
      'wrong    ledger   current on 2 of 3 agents',
      'next     brokkr describe stack shop',
      '',
    ].join('\n'),
  )
  expect(Math.max(...statusLines(overview, wrong).map((line) => line.length))).toBeLessThanOrEqual(80)
})

const node = (
  uid: string,
  kind: string,
  name: string,
  owner: string | null,
  health: TreeNode['health'] = 'healthy',
  message: string | null = null,
): TreeNode => ({
  uid,
  group: 'apps',
  kind,
  namespace: 'shop',
  name,
  owner_uid: owner,
  health,
  message,
})

test('tree', () => {
  const nodes = [
    node('1', 'Deployment', 'web', null),
    node('2', 'ReplicaSet', 'web-7d9', '1'),
    node('3', 'Pod', 'web-7d9-x2', '2'),
    node('4', 'Pod', 'web-7d9-k8', '2', 'failing', 'ImagePullBackOff \u001b[31macme/web:1.9'),
    node('5', 'Service', 'web', null),
    node('6', 'Job', 'migrate', 'unknown owner', 'unknown'),
  ]
  expect(`\n${treeLines(nodes).join('\n')}\n`).toBe(
    [
      '',
      '├─ Deployment shop/web ✔',
      '│  └─ ReplicaSet shop/web-7d9 ✔',
      '│     ├─ Pod shop/web-7d9-k8 ✖ ImagePullBackOff ·[31macme/web:1.9',
      '│     └─ Pod shop/web-7d9-x2 ✔',
      '├─ Job shop/migrate ?',
      '└─ Service shop/web ✔',
      '',
    ].join('\n'),
  )
})

test('owner references in a circle end', () => {
  expect(treeLines([node('1', 'A', 'a', '2'), node('2', 'B', 'b', '1')])).toEqual([])
})

const facts: TargetFacts = {
  stack: 'shop',
  agent: 'edge-17',
  generator: 'ci',
  reaches: true,
  is_registered: true,
  shared_labels: [{ label: 'env:prod', since: '2026-05-03T09:00:00Z', by: 'ops' }],
  shared_annotations: [],
  is_explicit: false,
  stack_labels: ['env:prod'],
  agent_labels: ['env:prod', 'region:eu'],
  desired_sequence_id: 42,
  sequence_id: 41,
  phase: 'pending',
  agent_status: 'ACTIVE',
  policy: { namespaces: ['shop'] },
}

test('explain target', () => {
  expect(`\n${targetLines(facts).join('\n')}\n`).toBe(
    [
      '',
      'shop reaches edge-17: label env:prod on both (since 2026-05-03T09:00Z, by ops) · edge-17 is registered with generator ci',
      'at sequence 41, not 42: pending',
      'local policy of edge-17: {"namespaces":["shop"]}',
      '',
    ].join('\n'),
  )
  const apart = { ...facts, reaches: false, is_registered: false, shared_labels: [], stack_labels: [] }
  expect(`\n${targetLines(apart).join('\n')}\n`).toBe(
    [
      '',
      'shop does not reach edge-17',
      '  why   edge-17 is not registered with generator ci',
      '  do    brokkr generators register ci edge-17',
      '  why   they share no label and there is no explicit target; stack: -; agent: env:prod, region:eu',
      '  do    brokkr stacks target shop --agent edge-17',
      '',
    ].join('\n'),
  )
})

const status = {
  agent_id: 'a',
  agent_name: 'fra-2',
  cluster_name: 'fra',
  reasons: ['label'],
  desired_sequence_id: 17,
  rev: 5,
  sequence_id: 16,
  deployment_object_id: null,
  phase: 'failed',
  code: 'missing_kind',
  message: 'CRD certificates.cert-manager.io is not in the cluster',
  attempts: 9,
  retry_at: '2026-05-03T14:18:21Z',
  health: 'healthy',
  observed_at: '2026-05-03T14:02:11Z',
  received_at: '2026-05-03T14:02:11Z',
  stale: false,
} as unknown as AgentStackStatus

test('explain stuck', () => {
  expect(`\n${stuckLines({ stack: 'ledger', status, event: null, unready: [] }).join('\n')}\n`).toBe(
    [
      '',
      'ledger@fra-2 17 failed (missing_kind), observed 12 min ago',
      '  blocked by  CRD certificates.cert-manager.io is not in the cluster',
      '  since       2026-05-03T14:02:11Z, attempt 9, next at 2026-05-03T14:18:21Z',
      '  runs        16, which is healthy',
      '  do          install the missing definition on that cluster, or target the stack that brings it',
      '',
    ].join('\n'),
  )
  const unready = [{ kind: 'Deployment', namespace: 'shop', name: 'web', message: '1 of 3 pods are ready' }]
  const applied = { ...status, phase: 'applied' as const, code: null, message: null, sequence_id: 17, health: 'degraded' as const }
  expect(`\n${stuckLines({ stack: 'ledger', status: applied, event: null, unready }).join('\n')}\n`).toBe(
    [
      '',
      'ledger@fra-2 17 degraded, observed 12 min ago',
      '  blocked by  1 objects are not ready',
      '              Deployment shop/web is not ready: 1 of 3 pods are ready',
      '  since       2026-05-03T14:02:11Z, attempt 9, next at 2026-05-03T14:18:21Z',
      '  do          brokkr logs ledger@fra-2        or: brokkr rollback ledger --last-good',
      '',
    ].join('\n'),
  )
})

test('doctor', () => {
  const lines = [
    { check: 'broker', ok: true, text: 'http://127.0.0.1:3000 answers in 12 ms' },
    { check: 'clock', ok: false, text: 'differs by 90 s from the broker', cure: 'correct the time of this machine' },
  ].flatMap(findingLines)
  expect(`\n${lines.join('\n')}\n`).toBe(
    [
      '',
      '✔ broker    http://127.0.0.1:3000 answers in 12 ms',
      '✖ clock     differs by 90 s from the broker',
      '  cure      correct the time of this machine',
      '',
    ].join('\n'),
  )
})

test('a table fits 80 columns on a terminal and is not cut without one', () => {
  const table = {
    head: ['NAME', 'HEALTH', 'MESSAGE'],
    rows: [
      ['a-rather-long-name-of-a-stack-that-goes-on', 'failing', 'x'.repeat(90)],
      ['short', 'healthy', '-'],
    ],
  }
  // The head is bold on a terminal.
  expect(`\n${stripVTControlCharacters(formatTable(table, 80))}\n`).toBe(
    [
      '',
      'NAME                                HEALTH   MESSAGE',
      'a-rather-long-name-of-a-stack-tha…  failing  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
      'short                               healthy  -',
      '',
    ].join('\n'),
  )
  expect(formatTable(table)).toContain('x'.repeat(90))
})
