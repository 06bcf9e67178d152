// Admin PAKs and invites in lists. Neither contains a secret.
import type { AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import type { AgentInvite } from '@brokkr/contract/invites/agent-invite.ts'
import { age } from '../../output.ts'
import type { Resource } from '../get/resource.ts'

export const paks: Resource<AdminPak> = {
  head: ['NAME', 'SCOPE', 'EXPIRES', 'LAST USE', 'AGE'],
  row: (one) => [
    one.name,
    one.readonly ? 'read only' : (one.scope?.join(', ') ?? 'everything'),
    one.expires_at ?? 'never',
    age(one.last_used_at),
    age(one.created_at),
  ],
  wideHead: ['SHORT', 'ID'],
  wideRow: (one) => [one.short_token ?? '-', one.id],
  nameOf: ({ name }) => name,
  fields: [],
  hasLabels: false,
  pages: async function* (client) {
    yield await client.listAdminPaks({})
  },
  kinds: ['admin'],
}

export const invites: Resource<AgentInvite> = {
  head: ['ID', 'AGENT', 'LABELS', 'USES LEFT', 'STATE', 'AGE'],
  row: (one) => [
    one.id,
    one.name ?? `${one.name_prefix ?? ''}*`,
    one.labels.join(', ') || '-',
    `${one.uses_left}/${one.uses}`,
    one.revoked_at === null ? (Date.parse(one.expires_at) < Date.now() ? 'expired' : 'open') : 'revoked',
    age(one.created_at),
  ],
  wideHead: ['EXPIRES', 'PRESET', 'AGENTS'],
  wideRow: (one) => [one.expires_at, one.preset, String(one.agents.length)],
  nameOf: ({ id }) => id,
  fields: [],
  hasLabels: false,
  pages: (client) => client.pages('listAgentInvites', {}),
  kinds: ['agent_invite'],
}
