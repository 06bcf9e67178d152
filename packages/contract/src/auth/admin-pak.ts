// Verification of PAKs, admin PAKs, and sessions.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, GeneratorId, StackId, Timestamp, Uuid } from '../wire.ts'

export const verifyPak = endpoint({
  method: 'POST',
  path: '/api/v1/auth/pak',
  summary: 'Identify the owner of the PAK',
  success: 200,
  response: z.object({
    admin: z.boolean(),
    agent: AgentId.nullable(),
    generator: GeneratorId.nullable(),
    readonly: z.boolean(),
  }),
})

/** Verbs of a scoped admin PAK. The broker's permission table maps each operation to a verb. */
export const Verb = z.enum(['read', 'deploy', 'operate', 'approve', 'notify', 'admin'])
export type Verb = z.output<typeof Verb>

/** Whether a caller may use operations of one verb; `code` and `reason` are those of the refusal. */
export const Access = z.object({
  verb: Verb,
  allowed: z.boolean(),
  code: z.string().nullable(),
  reason: z.string().nullable(),
})
export type Access = z.output<typeof Access>

export const listAccess = endpoint({
  method: 'GET',
  path: '/api/v1/auth/access',
  summary: 'List for every verb whether the caller may use it',
  success: 200,
  response: z.array(Access),
})

export const listStackAccess = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/access',
  summary: 'List for every verb whether the caller may use it on a stack',
  params: byId(StackId),
  success: 200,
  response: z.array(Access),
  errors: ['stack_not_found', 'stack_not_owned'],
})

export const AdminPak = z.object({
  id: Uuid,
  name: z.string(),
  /** null: the broker received only the hash. */
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
  summary: 'List admin PAKs by name, without secrets',
  success: 200,
  response: z.array(AdminPak),
})

export const createAdminPak = endpoint({
  method: 'POST',
  path: '/api/v1/admin/paks',
  summary: 'Create an admin PAK; the response is the only one that contains it',
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
  summary: 'Replace an admin PAK; the old PAK, its sessions and its streams end immediately',
  params: byId(Uuid),
  success: 201,
  response: IssuedAdminPak,
  errors: ['not_found', 'scope_denied'],
})

export const revokeAdminPak = endpoint({
  method: 'DELETE',
  path: '/api/v1/admin/paks/{id}',
  summary: 'Revoke an admin PAK, its sessions and its streams',
  params: byId(Uuid),
  success: 204,
  errors: ['not_found', 'last_admin_pak', 'scope_denied'],
})

export const createSession = endpoint({
  method: 'POST',
  path: '/api/v1/auth/session',
  summary: 'Sign in with a PAK; the response sets a session cookie with the permissions of the PAK',
  body: z.object({ readonly: z.boolean().optional() }),
  success: 201,
  response: z.object({ expires_at: Timestamp, readonly: z.boolean() }),
  issuesSecret: true,
  errors: ['forbidden'],
})

export const deleteSession = endpoint({
  method: 'DELETE',
  path: '/api/v1/auth/session',
  summary: 'Sign out: end the session of the cookie',
  success: 204,
  errors: ['forbidden', 'origin_refused'],
})

export const getConfig = endpoint({
  method: 'GET',
  path: '/api/v1/admin/config',
  summary: 'List every setting with value, source and whether a reload applies it; secrets are masked',
  success: 200,
  response: z.record(z.string(), z.object({ value: z.unknown(), source: z.string(), reloadable: z.boolean() })),
})

export const listTasks = endpoint({
  method: 'GET',
  path: '/api/v1/admin/tasks',
  summary: 'List background tasks with interval, last result and current runner',
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
