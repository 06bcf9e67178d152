import type { PlanChange, PlanResult, PlanWithResults } from '@brokkr/contract/plans/plan.ts'
import { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { expect, test } from 'vitest'
import { type FleetPlan, groupPlan, mayChange } from './plan-groups.ts'
import { planLines, planMarkdown } from './plan-screen.ts'

const uuid = (at: number) => `0198c0de-0000-7000-8000-${String(at).padStart(12, '0')}`
let count = 0
const none = { create: 0, update: 0, delete: 0, unchanged: 0, denied: 0, unchecked: 0 }
const agent = (name: string, changes: PlanChange[], more: Partial<PlanResult> = {}): PlanResult => ({
  agent_id: AgentId.parse(uuid((count += 1))),
  agent_name: name,
  cluster_name: `${name}-cluster`,
  state: 'answered',
  reason: null,
  at: '2026-05-01T10:00:00.000Z',
  summary: none,
  changes,
  has_more: false,
  ...more,
})
const change = (kind: string, name: string, what: PlanChange['change'], more: Partial<PlanChange> = {}): PlanChange => ({
  group: '',
  kind,
  namespace: 'shop',
  name,
  change: what,
  fields: [],
  guard: null,
  message: null,
  ...more,
})
const image = (before: string, after = 'web:1.9') =>
  change('Deployment', 'web', 'update', { fields: [{ path: '/spec/image', before, after }] })
const password = (before: string, after: string) =>
  change('Secret', 'db', 'update', { fields: [{ path: '/data/password', before: `***#${before}`, after: `***#${after}` }] })
const brief = ({ groups }: FleetPlan) =>
  groups.map(({ change: what, kind, name, agents, fields }) => [
    what,
    `${kind} ${name}`,
    agents.join(' '),
    ...fields.map((field) => `${field.path} ${field.before} → ${field.after} ${field.agents.join(' ')}`),
  ])

test.each<[string, PlanResult[], string[][]]>([
  ['no agent', [], []],
  [
    'equal changes of two agents',
    [agent('a', [image('web:1.8')]), agent('b', [image('web:1.8')])],
    [['update', 'Deployment shop/web', 'a b', '/spec/image web:1.8 → web:1.9 a b']],
  ],
  [
    'other values in one cluster, the most frequent first',
    [agent('a', [image('web:1.7')]), agent('b', [image('web:1.8')]), agent('c', [image('web:1.8')])],
    [['update', 'Deployment shop/web', 'a b c', '/spec/image web:1.8 → web:1.9 b c', '/spec/image web:1.7 → web:1.9 a']],
  ],
  [
    'fingerprints of Secrets, which differ per agent',
    [agent('a', [password('0123456789ab', 'ba9876543210')]), agent('b', [password('111111111111', '222222222222')])],
    [['update', 'Secret shop/db', 'a b', '/data/password ***#k1 → ***#k2 a b']],
  ],
  [
    'created in one cluster, updated in the other, sorted by change',
    [agent('a', [change('ConfigMap', 'flags', 'create')]), agent('b', [change('ConfigMap', 'flags', 'update')])],
    [
      ['update', 'ConfigMap shop/flags', 'b'],
      ['create', 'ConfigMap shop/flags', 'a'],
    ],
  ],
  [
    'kinds of two API groups with one name, and an object without namespace',
    [agent('a', [change('Role', 'x', 'create', { group: 'one' }), change('Role', 'x', 'create', { group: 'two', namespace: null })])],
    [
      ['create', 'Role shop/x', 'a'],
      ['create', 'Role x', 'a'],
    ],
  ],
  [
    'values that are absent, null and numbers',
    [
      agent('a', [
        change('Deployment', 'web', 'update', {
          fields: [
            { path: '/a', after: 3 },
            { path: '/b', before: null },
          ],
        }),
      ]),
    ],
    [['update', 'Deployment shop/web', 'a', '/a (none) → 3 a', '/b null → (none) a']],
  ],
  [
    'equal agent names in two clusters',
    [agent('a', [image('1')], { cluster_name: 'x' }), agent('a', [], { cluster_name: 'y' })],
    [['update', 'Deployment shop/web', 'a/x', '/spec/image 1 → web:1.9 a/x']],
  ],
  ['agents without an answer', [agent('a', [image('1')], { state: 'silent', summary: null })], []],
])('%s', (_, results, expected) => {
  expect(brief(groupPlan(results))).toEqual(expected)
})

test.each<[string, PlanResult[], boolean]>([
  ['unchanged everywhere', [agent('a', [])], false],
  ['a change', [agent('a', [image('1')])], true],
  ['silent', [agent('a', []), agent('b', [], { state: 'silent' })], true],
  ['waiting', [agent('a', [], { state: 'waiting' })], true],
  ['refused', [agent('a', [], { state: 'refused' })], true],
])('an agent without an answer never counts as unchanged: %s', (_, results, expected) => {
  expect(mayChange(groupPlan(results))).toBe(expected)
})

const plan = (results: PlanResult[]): PlanWithResults => ({
  id: uuid(7),
  stack_id: StackId.parse(uuid(8)),
  base_sequence_id: 42,
  is_deletion_marker: false,
  content_checksum: '',
  target_digest: '',
  agents_total: results.length,
  created_at: '2026-05-01T10:00:00.000Z',
  expires_at: '2026-05-01T11:00:00.000Z',
  results,
})
const screen = (results: PlanResult[]) => ({ plan: plan(results), stack: 'shop', apply: 'brokkr apply --plan X -f k8s/' })
const narrow = { width: Number.POSITIVE_INFINITY, isWide: false }

test('the fleet view has one line per object, names silent agents, and marks guards, denials and unchecked objects', () => {
  const all = [image('web:1.8'), change('ConfigMap', 'flags', 'create')]
  const results = [
    agent('edge-1', [...all, change('ClusterRole', 'read', 'denied', { namespace: null, message: 'local policy' })]),
    agent('fra-1', [...all, change('PersistentVolumeClaim', 'cache', 'delete', { guard: 'it would delete cache' })]),
    agent('fra-2', [...all, change('Certificate', 'tls', 'unchecked', { message: 'its CRD comes with this plan' })]),
    agent('edge-88', [], { state: 'silent', reason: 'disconnected' }),
    agent('edge-91', [], { state: 'refused', reason: 'no signature' }),
    agent('edge-92', [], { summary: { ...none, update: 3 } }),
  ]
  expect(planLines(screen(results), narrow)).toEqual([
    `plan ${uuid(7)}  shop 42 → 43   6 agents (4 dry-run, 1 silent: edge-88, 1 refused: edge-91)   valid 60 min`,
    '  ~ 3  Deployment shop/web               /spec/image         web:1.8 → web:1.9   on edge-1 fra-1 fra-2',
    '  + 3  ConfigMap shop/flags              edge-1 fra-1 fra-2',
    '  - 1  PersistentVolumeClaim shop/cache  fra-1               GUARD: it would delete cache',
    '  ! 1  ClusterRole read                  edge-1              local policy',
    '  ? 1  Certificate shop/tls              fra-2               its CRD comes with this plan',
    'note     edge-88: silent, disconnected',
    'note     edge-91: refused, no signature',
    'note     edge-92: 0 of 3 changes are listed',
    'guard    deletions wait after the apply for: brokkr agents approve-prune AGENT --stack shop',
    'apply    brokkr apply --plan X -f k8s/',
  ])
})

test.each<[string, PlanResult[], string]>([
  ['no target', [], '  the stack targets no agent: nothing was checked'],
  ['no answer', [agent('a', [], { state: 'silent' })], '  no agent answered: the changes are unknown'],
  ['some silent', [agent('a', []), agent('b', [], { state: 'silent' })], '  no changes on the 1 agents that answered'],
  ['all unchanged', [agent('a', [])], '  no changes'],
])('a plan without changes says what is known: %s', (_, results, expected) => {
  expect(planLines(screen(results), narrow)[1]).toBe(expected)
})

test('the fleet view fits the width and counts further fields, the wide one shows them all', () => {
  const long = 'v'.repeat(300)
  const fields = [
    { path: `/${'p'.repeat(300)}`, before: long, after: 'b' },
    { path: '/x', before: 'one', after: 'two' },
  ]
  const given = screen([agent('a', [change('ConfigMap', 'big\u001b[2J', 'update', { fields })])])
  const [, line = ''] = planLines(given, { width: 80, isWide: false })
  expect(line.length).toBeLessThanOrEqual(80)
  expect(planLines(given, narrow)[1]).toContain('(+1 more)')
  const wide = planLines(given, { width: Number.POSITIVE_INFINITY, isWide: true }).join('\n')
  for (const part of [long, '/x', 'one → two']) expect(wide).toContain(part)
  expect(wide).not.toContain('\u001b')
})

test('markdown shows texts of manifests as code', () => {
  const markdown = planMarkdown(screen([agent('a', [image('`x` | <img src=y>')]), agent('b', [], { state: 'silent' })])).join('\n')
  expect(markdown).toContain('### Plan of `shop`: 42 → 43')
  expect(markdown).toContain('2 agents (1 dry-run, 1 silent: b), valid 60 min')
  expect(markdown).toContain("| `~` | 1 | `Deployment shop/web` | `/spec/image` `'x' \\| <img src=y> → web:1.9` |")
  expect(markdown).toContain('Apply: `brokkr apply --plan X -f k8s/`')
})
