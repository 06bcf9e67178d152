// Opens authentication: the credential cache that the change feed keeps current, the file with the first admin PAK, and the warning about
// sample PAKs.
import * as adminRole from '../admin/store/admin-role.ts'
import type { AuditEntry } from '../audit/record.ts'
import { systemActor } from '../audit/rules.ts'
import { type AdminPakFileGuard, guardAdminPakFile } from '../auth/admin-pak-file.ts'
import { watchSamplePaks } from '../auth/sample-paks.ts'
import * as consoleSessions from '../auth/store/console-sessions.ts'
import * as credentials from '../auth/store/credentials.ts'
import * as loginTokens from '../auth/store/login-tokens.ts'
import type { BrokerDeps } from '../deps.ts'
import { type Authenticator, type AuthFailure, createAuthenticator } from '../http/authentication/authenticate.ts'
import type { CredentialKind } from '../http/authentication/credential-cache.ts'
import * as agentInvites from '../invites/store.ts'
import type { StartContext } from './context.ts'
import type { Feed } from './open-feed.ts'
import type { Store } from './open-store.ts'

export interface Security {
  readonly authenticator: Authenticator
  readonly dropCredential: BrokerDeps['dropCredential']
}

export async function openSecurity(deps: StartContext & Store & Feed): Promise<Security> {
  const { config, clock, log, metrics, onClose, sql, feed } = deps
  const adminPakFile = await guardFirstAdminPak(deps)
  onClose('admin PAK file', () => adminPakFile.close())
  const samplePakWatch = watchSamplePaks({ sql, clock, log, metrics }, { isAllowed: config.broker.allow_sample_pak })
  onClose('sample PAK watch', () => samplePakWatch?.stop())
  const authenticator = openAuthenticator(deps, adminPakFile)
  feed.onCredentialsInDoubt(() => authenticator.dropAll())
  feed.onCredentialChange((kind, id) => {
    authenticator.dropCredential(kind as CredentialKind, id)
    if (kind === 'admin') samplePakWatch?.wake()
  })
  return { authenticator, dropCredential: (kind, id) => authenticator.dropCredential(kind, id) }
}

function guardFirstAdminPak({ config, clock, log, sql }: StartContext & Store): Promise<AdminPakFileGuard> {
  const isLiveKey = async (hash: string) => (await adminRole.countLiveAmong(sql, { hashes: [hash] })).live > 0
  const wasUsed = async () => (await adminRole.wasUsed(sql, {})).used
  const { admin_pak_file: path, admin_pak_file_seconds: seconds } = config.broker
  return guardAdminPakFile({ clock, log, isLiveKey, wasUsed }, { path, lifeMs: seconds * 1000, pakForm: config.pak })
}

function openAuthenticator(
  { config, clock, metrics, cookie, sql, audit, usage, feed }: StartContext & Store & Feed,
  adminPakFile: AdminPakFileGuard,
): Authenticator {
  return createAuthenticator(
    {
      clock,
      metrics,
      lookupCredential: (hash) => credentials.findByHash(sql, { hash }),
      lookupInvite: (hash) => agentInvites.findByHash(sql, { hash }),
      lookupLink: async ({ short, hash }) => {
        const link = await loginTokens.findByHash(sql, { hash })
        if (link === null) await loginTokens.countWrongTry(sql, { token_short: short })
        return link
      },
      lookupSession: (hash) => consoleSessions.findByHash(sql, { hash }),
      trusted: () => feed.getTrouble() === null,
      onAuthFailure: (failure) => audit.record(toFailedAuthEntry(failure)),
      onAccepted: ({ kind, id, session }, renews) => {
        if (kind !== 'invite' && kind !== 'link') usage.used(kind, id)
        if (session !== null && renews) usage.used('session', session)
        if (kind === 'admin') adminPakFile.used()
      },
    },
    { cacheTtlMs: () => config.broker.auth_cache_ttl_seconds * 1000, cookieName: cookie.name, pakForm: config.pak },
  )
}

function toFailedAuthEntry({ clientAddress, userAgent, requestId, path, reason, shortToken }: AuthFailure): AuditEntry {
  return {
    actor: { ...systemActor, address: clientAddress, userAgent, requestId },
    action: 'auth.failed',
    resource: { type: 'system', id: null },
    details: { path, reason, ...(shortToken === null ? {} : { short_token: shortToken }) },
  }
}
