// Compares the credentials of all open streams and watches with the database every few minutes. The feed reports revocations at once;
// this check limits the effect of a missed change row.

import type { Sql } from '@brokkr/postgres'
import type { Loop } from '@brokkr/runtime/loop.ts'
import * as agents from '../../agents/store/agents.ts'
import type { Registry } from '../reader/registry.ts'
import type { AgentStream } from './agent-stream.ts'
import { readFingerprints, type Watches } from './watch.ts'

interface RecheckDeps {
  readonly sql: Sql
  readonly registry: Registry<AgentStream>
  readonly watches: Pick<Watches, 'list'>
}

export const recheckCredentials = (deps: RecheckDeps, settings: { recheck_seconds: number }): Loop => ({
  name: 'recheck-keys',
  everyMs: settings.recheck_seconds * 1000,
  run: async () => {
    const revoked = [...(await findRevokedStreams(deps)), ...(await findRevokedWatches(deps))]
    for (const stream of revoked) stream.end('revoked', 0)
    return { revoked: revoked.length }
  },
})

async function findRevokedStreams({ sql, registry }: RecheckDeps) {
  const streams = registry.listSubscribers()
  if (streams.length === 0) return []
  const rows = await agents.listPakFingerprints(sql, { ids: [...new Set(streams.map(({ agentId }) => agentId))] })
  const fingerprints = new Map(rows.map(({ id, key_mark }) => [id, key_mark]))
  return streams.filter(({ agentId, pakFingerprint }) => (fingerprints.get(agentId) ?? null) !== pakFingerprint || pakFingerprint === null)
}

async function findRevokedWatches({ sql, watches }: RecheckDeps) {
  const openWatches = watches.list()
  const current = await readFingerprints(
    sql,
    openWatches.flatMap(({ credentialKeys }) => credentialKeys),
  )
  return openWatches.filter(({ credentialKeys, fingerprints }) =>
    credentialKeys.some((key) => !current.has(key) || current.get(key) !== fingerprints.get(key)),
  )
}
