// Exchanges a sign-in link for a console session in one transaction: the link is used once, and the session gets the rights of its PAK.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import type { Actor } from '../../audit/rules.ts'
import * as loginTokens from '../store/login-tokens.ts'
import { type CreatedSession, insertSession } from './create-session.ts'
import { holdPak } from './hold-pak.ts'

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
