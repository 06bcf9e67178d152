import { expect, test } from 'vitest'
import { type InviteNames, type RequestedNames, resolveAgentNames } from './invited-names.ts'

const open: InviteNames = { name: null, name_prefix: null, cluster_name: null }

test.each<[string, Partial<InviteNames>, RequestedNames, string]>([
  ['who is invited by name needs to say nothing', { name: 'edge' }, {}, 'edge edge'],
  ['and may say it', { name: 'edge' }, { name: ' edge ' }, 'edge edge'],
  ['but nothing else', { name: 'edge' }, { name: 'core' }, 'name must be edge'],
  ['who is invited by a prefix names itself', { name_prefix: 'edge-' }, { name: 'edge-1' }, 'edge-1 edge-1'],
  ['under that prefix', { name_prefix: 'edge-' }, { name: 'core-1' }, 'name must begin with edge-'],
  ['and must', { name_prefix: 'edge-' }, {}, 'name is missing'],
  ['who is invited by neither is free', {}, { name: 'a', cluster_name: 'b' }, 'a b'],
  ['and must say something', {}, { name: null }, 'name is missing'],
  ['of use', {}, { name: ' ' }, 'name must not be empty'],
  ['the cluster of the invite', { cluster_name: 'fra' }, { name: 'a' }, 'a fra'],
  ['is no other', { cluster_name: 'fra' }, { name: 'a', cluster_name: 'ber' }, 'cluster_name must be fra'],
])('%s', (_, invite, asked, expected) => {
  const said = () => {
    const { name, cluster_name } = resolveAgentNames({ ...open, ...invite }, asked)
    return `${name} ${cluster_name}`
  }
  if (/must|missing/.test(expected))
    expect(said).toThrow(expect.objectContaining({ code: 'invalid_agent', message: expect.stringContaining(expected) }))
  else expect(said()).toBe(expected)
})
