// Asks the broker about keys by name, whatever key the other requests carry.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { KeyJudge } from './own-key.ts'

export function keyJudge(client: Client, agentId: () => AgentId, signal: AbortSignal): KeyJudge {
  const as = (pak: string) => ({ headers: { authorization: `Bearer ${pak}` }, signal })
  return {
    isValid: (pak) => unlessRefused(() => client.verifyPak({}, as(pak))),
    rotate: (old, { short, hash }) =>
      unlessRefused(() => client.rotateAgentPak({ params: { id: agentId() }, body: { short_token: short, pak_hash: hash } }, as(old))),
  }
}

async function unlessRefused(call: () => Promise<unknown>): Promise<boolean> {
  try {
    await call()
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return false
    throw error
  }
}
