// Keys of people: the check of a key, used by agents at start and by people at sign-in, and the admin keys themselves.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, byId, GeneratorId, Timestamp, Uuid } from './wire.ts'

export const verifyPak = endpoint({
  method: 'POST',
  path: '/api/v1/auth/pak',
  summary: 'Tells whose key this is',
  success: 200,
  response: z.object({
    admin: z.boolean(),
    agent: AgentId.nullable(),
    generator: GeneratorId.nullable(),
    readonly: z.boolean(),
  }),
})

/** What an admin key with a scope may do; which operation needs which verb is the broker's table. */
export const Verb = z.enum(['read', 'deploy', 'operate', 'approve', 'notify', 'admin'])
export type Verb = z.output<typeof Verb>

export const AdminPak = z.object({
  id: Uuid,
  name: z.string(),
  /** null: only the hash was ever given to the broker. */
  short_token: z.string().nullable(),
  readonly: z.boolean(),
  /** null: everything. */
  scope: z.array(Verb).nullable(),
  expires_at: Timestamp.nullable(),
  last_used_at: Timestamp.nullable(),
  created_at: Timestamp,
})
export type AdminPak = z.output<typeof AdminPak>
const IssuedAdminPak = z.object({ ...AdminPak.shape, pak: z.string() })

export const listAdminPaks = endpoint({
  method: 'GET',
  path: '/api/v1/admin/paks',
  summary: 'Admin keys by name, without the keys themselves',
  success: 200,
  response: z.array(AdminPak),
})

export const createAdminPak = endpoint({
  method: 'POST',
  path: '/api/v1/admin/paks',
  summary: 'Create an admin key; it is shown once, here',
  body: z.object({
    name: z.string(),
    readonly: z.boolean().optional(),
    scope: z.array(Verb).min(1).max(6).nullable().optional(),
    expires_at: Timestamp.nullable().optional(),
  }),
  success: 201,
  response: IssuedAdminPak,
  errors: ['scope_denied'],
})

export const rotateAdminPak = endpoint({
  method: 'POST',
  path: '/api/v1/admin/paks/{id}/rotate',
  summary: 'Replace an admin key by a new one; the old one is dead at once, with its sessions and streams',
  params: byId(Uuid),
  success: 201,
  response: IssuedAdminPak,
  errors: ['not_found', 'scope_denied'],
})

export const revokeAdminPak = endpoint({
  method: 'DELETE',
  path: '/api/v1/admin/paks/{id}',
  summary: 'Revoke an admin key, with its sessions and streams',
  params: byId(Uuid),
  success: 204,
  errors: ['not_found', 'last_admin_pak', 'scope_denied'],
})

export const createSession = endpoint({
  method: 'POST',
  path: '/api/v1/auth/session',
  summary: 'Sign in with a key: the answer sets a cookie that opens what the key opens, until it ends',
  body: z.object({ readonly: z.boolean().optional() }),
  success: 201,
  response: z.object({ expires_at: Timestamp, readonly: z.boolean() }),
  issuesSecret: true,
  errors: ['forbidden'],
})

export const deleteSession = endpoint({
  method: 'DELETE',
  path: '/api/v1/auth/session',
  summary: 'Sign out: the session of the cookie ends',
  success: 204,
  errors: ['forbidden', 'origin_refused'],
})

export const getConfig = endpoint({
  method: 'GET',
  path: '/api/v1/admin/config',
  summary: 'Every setting with its value, where it came from, and whether it takes effect without a restart; secrets as ***',
  success: 200,
  response: z.record(z.string(), z.object({ value: z.unknown(), source: z.string(), reloadable: z.boolean() })),
})

export const listTasks = endpoint({
  method: 'GET',
  path: '/api/v1/admin/tasks',
  summary: 'Background tasks: how often they run, how the last run went, who runs them now',
  success: 200,
  response: z.array(
    z.object({
      name: z.string(),
      every_seconds: z.number(),
      last_run_at: Timestamp.nullable(),
      last_result: z.record(z.string(), z.number()).nullable(),
      last_error: z.string().nullable(),
      lease_owner: z.string().nullable(),
    }),
  ),
})
