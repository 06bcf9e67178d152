// What nobody who applies the manifest gives away. That an API server takes it, and that it is enough, the agent's test shows.
import { Preset } from '@brokkr/contract/invites/agent-invite.ts'
import { parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { expect, test } from 'vitest'
import { buildJoinManifest } from './join-manifest.ts'

interface Rule {
  readonly apiGroups: string[]
  readonly resources: string[]
  readonly verbs: string[]
}
interface Found {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly namespace?: string }
  readonly rules?: Rule[]
  readonly roleRef?: { readonly name: string }
  readonly stringData?: object
}
const of = (preset: Preset, change: Partial<Parameters<typeof buildJoinManifest>[0]> = {}): Found[] =>
  parseManifest(
    buildJoinManifest({
      brokerUrl: 'https://brokkr.example.com',
      image: 'registry.example.com/agent@sha256:1',
      token: 'jt_a_b',
      name: 'edge',
      clusterName: 'fra',
      preset,
      namespaces: preset === 'namespaced' ? ['shop', 'pay'] : [],
      ...change,
    }),
  ).map(({ object }) => object as unknown as Found)

test.each(Preset.options)('preset %s has no wildcard, no escalation and no RBAC rights', (preset) => {
  const rules = of(preset).flatMap((object) => object.rules ?? [])
  expect(rules.length).toBeGreaterThan(2)
  for (const { apiGroups, resources, verbs } of rules) {
    const words = [...apiGroups, ...resources, ...verbs]
    expect(words.filter((word) => /\*|escalate|bind|impersonate|rbac|token|exec|proxy/.test(word))).toEqual([])
  }
})

test('the presets differ in how far they reach', () => {
  const roles = (preset: Preset) => of(preset).filter(({ kind }) => kind.endsWith('Role'))
  const places = (preset: Preset) => roles(preset).map(({ metadata }) => metadata.namespace ?? 'cluster')
  expect(places('standard')).toEqual(['brokkr-agent', 'cluster', 'cluster'])
  expect(places('namespaced')).toEqual(['brokkr-agent', 'cluster', 'shop', 'pay'])
  expect(places('cluster-admin')).toEqual(['brokkr-agent', 'cluster'])
  expect(of('cluster-admin').filter(({ roleRef }) => roleRef?.name === 'cluster-admin').length).toBe(1)
  const verbs = (preset: Preset) =>
    new Set(roles(preset).flatMap(({ metadata, rules }) => (metadata.namespace === undefined ? rules! : []).flatMap((rule) => rule.verbs)))
  expect(verbs('observe')).toEqual(new Set(['get', 'list', 'watch']))
  expect(JSON.stringify(roles('observe').filter(({ metadata }) => metadata.namespace === undefined))).not.toContain('secrets')
  // The one thing a whole cluster shows to an agent of a few namespaces is who it is.
  expect(roles('namespaced').flatMap(({ metadata, rules }) => (metadata.namespace === undefined ? rules! : []))).toEqual([
    { apiGroups: [''], resources: ['namespaces'], resourceNames: ['kube-system', 'brokkr-agent'], verbs: ['get'] },
  ])
})

test('a name is quoted in the manifest if YAML would read another type', () => {
  const odd = ['yes', '0x1', 'a: b', '- x', "it's", '#', 'a\n---\nkind: Secret', '{}', '']
  for (const name of odd) {
    const objects = of('standard', { name, clusterName: name })
    expect(objects.map(({ kind }) => kind)).toEqual(of('standard').map(({ kind }) => kind))
    const text = JSON.stringify(objects.at(-1))
    expect(text).toContain(JSON.stringify({ name: 'BROKKR__AGENT__AGENT_NAME', value: name }))
  }
})
