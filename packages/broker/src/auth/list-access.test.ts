import { expect, test } from 'vitest'
import type { Principal } from '../http/server/handler.ts'
import { listAccess } from './list-access.ts'

const principal = (given: Partial<Principal>): Principal => ({
  kind: 'admin',
  id: '00000000-0000-4000-8000-000000000001',
  name: 'p',
  readonly: false,
  scope: null,
  endsAtMs: null,
  isActive: true,
  session: null,
  pakHash: null,
  ...given,
})
const everything = { read: null, deploy: null, operate: null, approve: null, notify: null, admin: null }
const writes = (code: string) => ({ deploy: code, operate: code, approve: code, notify: code, admin: code })
const adminOnly = { approve: 'admin_required', notify: 'admin_required', admin: 'admin_required' }

test.each<[string, Partial<Principal>, Record<string, string | null>]>([
  ['an admin', {}, everything],
  ['a read-only admin', { readonly: true }, { read: null, ...writes('readonly') }],
  ['an admin with a scope', { scope: ['read', 'deploy'] }, { ...everything, ...writes('scope_denied'), deploy: null }],
  ['a generator', { kind: 'generator' }, { ...everything, ...adminOnly }],
  [
    'an inactive generator',
    { kind: 'generator', isActive: false },
    { read: null, deploy: 'generator_inactive', operate: 'generator_inactive', ...adminOnly },
  ],
  ['an agent', { kind: 'agent' }, { read: null, deploy: 'forbidden', operate: 'forbidden', ...adminOnly }],
])('the access of %s follows the permission table', (_, given, expected) => {
  const access = listAccess(principal(given))
  expect(Object.fromEntries(access.map(({ verb, code }) => [verb, code]))).toEqual(expected)
  for (const { allowed, code, reason } of access) expect([allowed, reason === null]).toEqual([code === null, code === null])
})
