// Sign-in links: create and exchange.
import { generateLoginToken } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as loginTokens from '../store/login-tokens.ts'
import { holdPak, requirePak } from './paks.ts'
import { type CreatedSession, insertSession } from './sessions.ts'

// Creates a sign-in link with the rights of a PAK. The token is shown once, in the fragment of the URL; only its hash is stored.

export interface NewLoginLink {
  readonly identity: { readonly kind: string; readonly id: string }
  /** Hash of the PAK that the caller sent; null on the command line, which needs none. */
  readonly pakHash: string | null
  readonly readonly: boolean
  readonly seconds: number
  /** Address by which browsers reach the broker. */
  readonly baseUrl: string
  readonly actor: Actor
}
/** Per identity; the oldest links are deleted first. */
const linksMax = 100

export async function createLoginLink(deps: { sql: Sql }, input: NewLoginLink): Promise<{ url: string; expires_at: string }> {
  const { token, short, hash } = await generateLoginToken()
  const id = uuid7()
  const identity = { identity_kind: input.identity.kind, identity_id: input.identity.id }
  const { expires_at } = await deps.sql.begin(async (sql) => {
    await requirePak(sql, input.identity, input.pakHash)
    const row = await loginTokens.insert(sql, {
      ...identity,
      id,
      token_short: short,
      token_hash: hash,
      readonly: input.readonly,
      seconds: input.seconds,
    })
    await loginTokens.keepNewest(sql, { ...identity, keep: linksMax })
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'login_link.created',
      resource: { type: 'pak', id: input.identity.id },
      details: { link_id: id, readonly: input.readonly },
    })
    return row
  })
  return { url: `${input.baseUrl}/login#${token}`, expires_at }
}

// Exchanges a sign-in link for a console session in one transaction: the link is used once, and the session gets the rights of its PAK.

export interface ExchangeLoginLink {
  readonly linkId: string
  readonly seconds: number
  readonly idleSeconds: number
  readonly from: Pick<Actor, 'address' | 'userAgent' | 'requestId'>
}

export async function exchangeLoginLink(
  deps: { sql: Sql; wakeFeed: () => void },
  { linkId, seconds, idleSeconds, from }: ExchangeLoginLink,
): Promise<CreatedSession> {
  const session = await deps.sql.begin(async (sql) => {
    const link = await loginTokens.get(sql, { id: linkId })
    if (link === null) throw invalidLink()
    const identity = { kind: link.identity_kind, id: link.identity_id }
    // The PAK is locked before the link, in the order in which a rotation locks them.
    if (!(await holdPak(sql, identity, null)) || (await loginTokens.spend(sql, { id: linkId })) === 0) throw invalidLink()
    return insertSession(sql, {
      identity,
      readonly: link.readonly,
      seconds,
      idleSeconds,
      actor: { ...from, ...identity },
      details: { link_id: linkId },
    })
  })
  deps.wakeFeed()
  return session
}

/** A used or expired link gets the same response as an unknown one. */
const invalidLink = (): ApiError =>
  new ApiError('unauthorized', 'sign-in failed: the link was used or is no longer valid; create a new link')
